"""Newline-delimited JSON from a file, a named pipe, or standard input.

How far a file was read is stored with the samples, so a restart neither loses nor doubles a line,
also when the file has got another name meanwhile (:mod:`headwater.devices.sources.rotation`).
What went through a pipe is gone: lines that were read but not yet safe when the process is killed
are lost.
"""

from __future__ import annotations

import os
import select
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from io import FileIO

from headwater.devices.memory.state import State
from headwater.devices.settings.sources import LinesSettings
from headwater.devices.sources.rotation import Generations, Place
from headwater.devices.sources.source import Delivery
from headwater.errors import InputError

_MARK = "lines read"
_CHUNK = 1 << 16
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
        with closing(Generations(self._path, Place.stored(state.get(_MARK)))) as files:
            yield from self._from_file(files, state, stop)
            # a file that is left because of a stop is not at its end: no step further then
            while not stop.is_set() and files.advance():
                yield self._marked([], files.oldest, 0, state)
                yield from self._from_file(files, state, stop)

    def _from_file(
        self, files: Generations, state: State, stop: threading.Event
    ) -> Iterator[Delivery]:
        """One file to its end; with ``follow`` until another has had its name for a while."""
        file = files.oldest
        cutter = LineCutter(self._limit, file.tell())
        while not stop.is_set():
            if self._follow:
                files.look()
            # before the last look for more: what is written after it may be missed
            over = not self._follow or files.lingered()
            chunk = file.read(_CHUNK)
            if chunk:
                yield from self._deliver(cutter.feed(chunk), file, state)
            elif os.fstat(file.fileno()).st_size < file.tell():
                # shortened: it begins anew, and no place in it is one to go on from
                yield from self._deliver(cutter.finish(), None, state)
                file.seek(0)
                cutter = LineCutter(self._limit)
            elif over:
                yield from self._deliver(cutter.finish(), file, state)
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
        self, lines: list[tuple[bytes, int]], file: FileIO | None, state: State
    ) -> Iterator[Delivery]:
        """Batches of lines; empty ones are no messages."""
        for first in range(0, len(lines), self._batch):
            part = lines[first : first + self._batch]
            messages = [line for line, _ in part if line.strip()]
            if file is None:
                yield Delivery(messages)
            else:
                yield self._marked(messages, file, part[-1][1], state)

    def _marked(self, messages: list[bytes], file: FileIO, offset: int, state: State) -> Delivery:
        """Messages after which reading has come to a place in a file."""
        place = Place.of(file.fileno(), offset)
        return Delivery(messages, partial(state.set, _MARK, place.text()))
