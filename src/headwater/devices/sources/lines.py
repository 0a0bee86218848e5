"""Newline-delimited JSON from a file, a named pipe, or standard input.

How far a file was read is stored with the samples, so a restart neither loses nor doubles a line.
What went through a pipe is gone: lines that were read but not yet safe when the process is killed
are lost.
"""

from __future__ import annotations

import json
import os
import select
import stat
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

from headwater.devices.memory.state import State
from headwater.devices.settings.sources import LinesSettings
from headwater.devices.sources.source import Delivery
from headwater.errors import InputError

_MARK = "lines read"
_CHUNK = 1 << 16
_BEFORE = 256  # bytes before a place that tell whether it is in the same file
_PATIENCE = 0.2  # seconds between two looks for more


class LineCutter:
    """Cuts bytes into lines; of a line that is too long only the beginning is kept.

    >>> cutter = LineCutter(limit=4)
    >>> cutter.feed(b"ab\\ncdefgh"), cutter.feed(b"ijk\\nl\\n")
    ([(b'ab', 3)], [(b'cdefg', 13), (b'l', 15)])
    """

    def __init__(self, limit: int, offset: int = 0) -> None:
        self._limit, self._read = limit, offset
        self._rest = b""

    def feed(self, chunk: bytes) -> list[tuple[bytes, int]]:
        """The lines that end in this chunk, each with the offset of what follows it."""
        *lines, last = chunk.split(b"\n")
        cut = []
        for line in lines:
            self._read += len(line) + 1
            whole, self._rest = self._rest + line, b""
            # one byte more than allowed, so that whoever checks the length sees it
            cut.append((whole[: self._limit + 1], self._read))
        self._read += len(last)
        self._rest = (self._rest + last)[: self._limit + 1]
        return cut

    def finish(self) -> list[tuple[bytes, int]]:
        """A last line without an end, if there is one."""
        rest, self._rest = self._rest, b""
        return [(rest, self._read)] if rest else []


@dataclass(frozen=True)
class _Place:
    """Which file was read, and how far.

    A new file may get the number of one that was deleted, so the bytes before the place are
    remembered as well.
    """

    device: int
    inode: int
    offset: int
    before: str

    @classmethod
    def of(cls, file: int, offset: int) -> _Place:
        """A place in an open file."""
        status = os.fstat(file)
        start = max(0, offset - _BEFORE)
        before = blake2b(os.pread(file, offset - start, start), digest_size=8)
        return cls(status.st_dev, status.st_ino, offset, before.hexdigest())

    @classmethod
    def stored(cls, text: object) -> _Place | None:
        return cls(*json.loads(str(text))) if text is not None else None

    def text(self) -> str:
        return json.dumps([self.device, self.inode, self.offset, self.before])

    def within(self, file: int) -> bool:
        """Is it still this file, and has it not been shortened?"""
        return self == _Place.of(file, self.offset)


class JsonLines:
    """Each line is a message."""

    def __init__(self, settings: LinesSettings, message_bytes: int, batch: int) -> None:
        self._path, self._follow = settings.path, settings.follow
        self._limit, self._batch = message_bytes, batch
        if self._standard_input:
            return
        if not self._path.exists():
            raise InputError(f"source.path: {self._path} is not there; a file, a pipe, or '-'")
        if self._path.is_dir():
            raise InputError(f"source.path: {self._path} is a folder; a file, a pipe, or '-'")
        if not os.access(self._path, os.R_OK):
            raise InputError(f"source.path: {self._path} must not be read; change its rights")

    @property
    def _standard_input(self) -> bool:
        return str(self._path) == "-"

    def deliveries(self, state: State, stop: threading.Event) -> Iterator[Delivery]:
        """Lines from where reading had come to."""
        regular = not self._standard_input and stat.S_ISREG(self._path.stat().st_mode)
        if not regular:
            yield from self._from_pipe(state, stop)
            return
        place = _Place.stored(state.get(_MARK))
        while not stop.is_set():
            yield from self._from_file(place, state, stop)
            if not self._follow:
                return
            place = None  # another file has taken the name: it is read from its beginning

    def _from_file(
        self, place: _Place | None, state: State, stop: threading.Event
    ) -> Iterator[Delivery]:
        """One file to its end; with ``follow`` until another has taken its name."""
        with self._path.open("rb", buffering=0) as file:
            number = file.fileno()
            offset = place.offset if place is not None and place.within(number) else 0
            file.seek(offset)
            cutter = LineCutter(self._limit, offset)
            while not stop.is_set():
                chunk = file.read(_CHUNK)
                if chunk:
                    yield from self._deliver(cutter.feed(chunk), number, state)
                elif not self._follow:
                    yield from self._deliver(cutter.finish(), number, state)
                    return
                elif self._replaced(os.fstat(number), file.tell()):
                    return
                else:
                    stop.wait(_PATIENCE)

    def _from_pipe(self, state: State, stop: threading.Event) -> Iterator[Delivery]:
        # opened for writing too, a named pipe does not end when its last writer leaves
        mine = not self._standard_input
        handle = os.open(self._path, os.O_RDWR) if mine else sys.stdin.fileno()
        try:
            cutter = LineCutter(self._limit)
            while not stop.is_set():
                if not select.select([handle], [], [], _PATIENCE)[0]:
                    continue
                chunk = os.read(handle, _CHUNK)
                lines = cutter.feed(chunk) if chunk else cutter.finish()
                yield from self._deliver(lines, None, state)
                if not chunk:
                    return
        finally:
            if mine:
                os.close(handle)

    def _deliver(
        self, lines: list[tuple[bytes, int]], file: int | None, state: State
    ) -> Iterator[Delivery]:
        """Batches of lines; empty ones are no messages."""
        for first in range(0, len(lines), self._batch):
            part = lines[first : first + self._batch]
            messages = [line for line, _ in part if line.strip()]
            if file is None:
                yield Delivery(messages)
            else:
                place = _Place.of(file, part[-1][1])
                yield Delivery(messages, partial(state.set, _MARK, place.text()))

    def _replaced(self, status: os.stat_result, read: int) -> bool:
        """Has the file been rotated away or shortened?"""
        try:
            now = self._path.stat()
        except FileNotFoundError:
            return False  # between two names; the new file is about to come
        same = (now.st_dev, now.st_ino) == (status.st_dev, status.st_ino)
        return not same or now.st_size < read
