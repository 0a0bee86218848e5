"""How long a piece of work took in all, over every time it was stopped and begun again."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from headwater.files import replace

_SECONDS = 10.0  # between two notes; what a kill loses of the count


@dataclass
class Stopwatch:
    """Counts the seconds since it was made, on top of those noted in its file.

    Attributes:
        file: where the count is kept.

    >>> import tempfile
    >>> note = Path(tempfile.mkdtemp()) / "spent.json"
    >>> Stopwatch(note).note()
    >>> again = Stopwatch(note)
    >>> again.seconds > Stopwatch(note).seconds > 0
    True
    """

    file: Path
    _wall: float = field(default_factory=time.monotonic)
    _cpu: float = field(default_factory=time.process_time)
    _before: tuple[float, float] = (0.0, 0.0)
    _noted: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if self.file.exists():
            wall, cpu = json.loads(self.file.read_text())
            self._before = float(wall), float(cpu)

    @property
    def seconds(self) -> float:
        """By the clock on the wall."""
        return self._before[0] + time.monotonic() - self._wall

    @property
    def cpu_seconds(self) -> float:
        """That the processor worked for us: what the work costs, whoever else was busy on the
        machine."""
        return self._before[1] + time.process_time() - self._cpu

    def tick(self) -> None:
        """Note the count if enough time has passed."""
        if time.monotonic() - self._noted >= _SECONDS:
            self.note()

    def note(self) -> None:
        """Write the count down."""
        replace(self.file, json.dumps([self.seconds, self.cpu_seconds]).encode())
        self._noted = time.monotonic()
