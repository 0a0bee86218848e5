"""``runs.jsonl``: all that is known of a table in one file that only ever grows.

Every line is a JSON object with its ``kind`` and a checksum. A line is appended under a lock, in
one write, and is on the disk before the writer goes on: whoever is killed loses no finished run,
and leaves at most the beginning of one line, which the next writer cuts off. Several processes may
append at the same time.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from headwater.errors import InputError
from headwater.files import sync_folder


@dataclass(frozen=True)
class RunLog:
    """A file of lines.

    Attributes:
        file: Where it is; it need not be there yet.

    Example:
        >>> import tempfile
        >>> log = RunLog(Path(tempfile.mkdtemp()) / "runs.jsonl")
        >>> log.append("run", {"id": "a", "accuracy": 0.5})
        >>> log.read("run")
        [{'id': 'a', 'accuracy': 0.5}]
    """

    file: Path

    def append(self, kind: str, content: Mapping[str, object]) -> None:
        """Write a line; when this returns, it is on the disk."""
        # once through JSON: numbers as names become words, which are sorted in another order
        plain = json.loads(json.dumps({"kind": kind, **content}, allow_nan=False))
        line = json.dumps(_checked(plain))
        new = not self.file.exists()
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with open(self.file, "a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            _cut_torn_end(file)
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if new:
            sync_folder(self.file.parent)

    def read(self, kind: str) -> list[dict[str, Any]]:
        """The contents of all lines of a kind, in the order in which they were written."""
        return [line for name, line in self._lines() if name == kind]

    def _lines(self) -> list[tuple[str, dict[str, Any]]]:
        try:
            text = self.file.read_bytes()
        except FileNotFoundError:
            return []
        # what follows the last line's end is the beginning of a line whose writer was killed
        whole = text[: text.rfind(b"\n") + 1].splitlines()
        return [self._parse(number, line) for number, line in enumerate(whole, 1) if line]

    def _parse(self, number: int, line: bytes) -> tuple[str, dict[str, Any]]:
        try:
            content = json.loads(line)
            if content != _checked({k: v for k, v in content.items() if k != "check"}):
                raise ValueError("its checksum does not fit")
            return content.pop("kind"), {k: v for k, v in content.items() if k != "check"}
        except (ValueError, AttributeError, KeyError, RecursionError) as error:
            raise InputError(
                f"{self.file}: line {number} is damaged ({error}); delete that line and run the "
                "same command again: only what it held is done again"
            ) from error


def _checked(content: dict[str, object]) -> dict[str, object]:
    """The content with the checksum of everything else in it."""
    text = json.dumps(content, sort_keys=True)
    return {**content, "check": sha256(text.encode()).hexdigest()[:12]}


def _cut_torn_end(file: IO[bytes]) -> None:
    """Drop the beginning of a line whose writer was killed."""
    end = file.seek(0, os.SEEK_END)
    tail = b""
    while end > 0 and b"\n" not in tail:
        start = max(0, end - 4096)
        file.seek(start)
        tail = file.read(end - start)
        torn = len(tail) - (tail.rfind(b"\n") + 1)
        end = start if torn == len(tail) else start + len(tail) - torn
    file.truncate(end)
