"""One line per round, each with a checksum, only ever appended: what a real run leaves behind.

A line says who was planned with what share, who came, and how much everybody held. The last line
may be cut short by a crash: it is dropped. A line that was changed is found and refused.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headwater.errors import InputError
from headwater.files import replace


@dataclass(frozen=True)
class Entry:
    """What happened in a round; the lists have one entry per planned client.

    Attributes:
        round: t.
        time: seconds since the epoch when it ended.
        seconds: how long it took.
        share: q(t), up to a common factor, with what was missing already taken off.
        move: ‖Σ p_m(t) (θ_m − θ)‖.
        client: numbers of the planned clients.
        planned: p_m(t).
        counted: what the client's move was multiplied with; 0: it was absent.
        held, arrived: its samples in memory, and all so far, when it last said so.
        drawn: gradients that it computed.
        refused: why updates did not count, by client number.
        metrics: test-then-train at the streams: ``prequential-count``, how many samples were
            predicted so far; ``prequential-recent_loss`` and ``prequential-recent_metric``, means
            over the latest of them.
    """

    round: int
    time: float
    seconds: float
    share: float
    move: float
    client: list[int]
    planned: list[float]
    counted: list[float]
    held: list[int]
    arrived: list[int]
    drawn: list[int]
    refused: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)


class Journal:
    """The rounds of a run in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, entry: Entry) -> None:
        """Write a line that is on the disk before the next round begins."""
        with open(self.path, "ab") as file:
            file.write(_line(asdict(entry)))
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> list[Entry]:
        """All rounds."""
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().split(b"\n")
        # The file ends with a newline unless a crash cut its last line.
        return [self._parse(line, number) for number, line in enumerate(lines[:-1], 1)]

    def tail(self, size: int = 1 << 18) -> list[Entry]:
        """The last rounds, from the last ``size`` bytes: what it costs does not grow."""
        if not self.path.exists():
            return []
        with open(self.path, "rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - size)
            file.seek(start)
            lines = file.read().split(b"\n")
        # The first line may begin in the middle, the last may not be finished.
        return [self._parse(line, 0) for line in lines[min(1, start) : -1]]

    def cut(self, rounds: int) -> None:
        """Drop what is beyond the last checkpoint: that round is done again."""
        kept = [entry for entry in self.read() if entry.round <= rounds]
        replace(self.path, b"".join(_line(asdict(entry)) for entry in kept))

    def _parse(self, line: bytes, number: int) -> Entry:
        body, _, checksum = line.rpartition(b"\t")
        if f"{zlib.crc32(body):08x}".encode() != checksum:
            raise InputError(f"{self.path}, line {number}: the checksum does not match")
        return Entry(**json.loads(body))


def _line(content: dict[str, object]) -> bytes:
    body = json.dumps(content, allow_nan=False).encode()
    return body + f"\t{zlib.crc32(body):08x}\n".encode()
