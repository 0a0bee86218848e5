"""The files that have one name, one after the other: a log that is rotated.

A writer may keep its file open for a while after the name has gone to a new one, so an old file is
read on for some seconds. Meanwhile new ones are opened as soon as they have the name: however
quickly they follow each other, none is missed.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from io import FileIO
from pathlib import Path

log = logging.getLogger(__name__)

LINGER = 5.0  # seconds that a file is read on after another has taken its name
_BEFORE = 256  # bytes before a place that tell whether it is in the same file


@dataclass(frozen=True)
class Place:
    """Which file was read, and how far.

    A new file may get the number of one that was deleted, so the bytes before the place are
    remembered as well.
    """

    device: int
    inode: int
    offset: int
    before: str

    @classmethod
    def of(cls, file: int, offset: int) -> Place:
        """A place in an open file."""
        status = os.fstat(file)
        start = max(0, offset - _BEFORE)
        before = blake2b(os.pread(file, offset - start, start), digest_size=8)
        return cls(status.st_dev, status.st_ino, offset, before.hexdigest())

    @classmethod
    def stored(cls, text: object) -> Place | None:
        """What ``text`` wrote."""
        return cls(*json.loads(str(text))) if text is not None else None

    def text(self) -> str:
        """For the node's state."""
        return json.dumps([self.device, self.inode, self.offset, self.before])

    def within(self, file: int) -> bool:
        """Is it still this file, and has it not been shortened?"""
        return self == Place.of(file, self.offset)


class Generations:
    """The files that have had a name and are not read to their end yet, the oldest first.

    Args:
        path: the name.
        place: where reading had come to; None: nothing was read yet.
    """

    def __init__(self, path: Path, place: Place | None) -> None:
        self._path = path
        self._files: deque[FileIO] = deque([FileIO(path)])
        self._followed: deque[float] = deque()  # since when each but the newest has a successor
        if place is not None:
            self._go_to(place)

    @property
    def oldest(self) -> FileIO:
        """The file to be read now, at the place from which it is to be read."""
        return self._files[0]

    def look(self) -> None:
        """If another file has taken the name, it is the newest from now on."""
        with suppress(FileNotFoundError):  # between two names; the new file is about to come
            if not os.path.samestat(os.fstat(self._files[-1].fileno()), self._path.stat()):
                self._files.append(FileIO(self._path))
                self._followed.append(time.monotonic())

    def lingered(self) -> bool:
        """Has the oldest had a successor for so long that nobody writes to it any more?"""
        return bool(self._followed) and time.monotonic() - self._followed[0] >= LINGER

    def advance(self) -> bool:
        """The next file, if there is one."""
        if not self._followed:
            return False
        self._files.popleft().close()
        self._followed.popleft()
        return True

    def close(self) -> None:
        """No more reading."""
        for file in self._files:
            file.close()

    def _go_to(self, place: Place) -> None:
        """The file in which reading had come to a place, under whatever name it is now."""
        if not place.within(self.oldest.fileno()):
            old = self._find(place)
            if old is None:
                log.warning(
                    "the file that was being read is gone: lines may be lost",
                    extra={"file": str(self._path), "read": place.offset},
                )
                return
            self._files.appendleft(old)
            self._followed.append(time.monotonic())
        self.oldest.seek(place.offset)

    def _find(self, place: Place) -> FileIO | None:
        """Among the files beside this one whose names begin with its name."""
        beside = self._beside()
        for number, path in enumerate(beside):
            with suppress(OSError):  # it is not ours to read, or gone already
                file = FileIO(path)
                if place.within(file.fileno()):
                    for later in beside[number + 1 :]:
                        words = "rotated more than once meanwhile: a file is not read"
                        log.warning(words, extra={"file": later})
                    return file
                file.close()
        return None

    def _beside(self) -> list[str]:
        """Their paths; the one that was written to last is the last."""
        name = self._path.name
        with os.scandir(self._path.parent) as entries:
            old = [e for e in entries if e.name != name and e.name.startswith(name) and e.is_file()]
        return [entry.path for entry in sorted(old, key=lambda entry: entry.stat().st_mtime_ns)]
