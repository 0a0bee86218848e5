"""How long a piece of work took in all, over every time it was stopped and begun again."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from headwater.files import replace

_SECONDS = 10.0  # between two notes; what a kill loses of the count


@dataclass
class TimeSpent:
    """Counts the seconds since it was made, on top of those noted in its file.

    Attributes:
        file: Where the count is kept.

    Example:
        >>> import tempfile
        >>> note = Path(tempfile.mkdtemp()) / "spent.json"
        >>> TimeSpent(note).note()
        >>> again = TimeSpent(note)
        >>> again.seconds > TimeSpent(note).seconds > 0
        True
    """

    file: Path
    _wall: float = field(default_factory=time.monotonic)
    _cpu: float = field(default_factory=time.process_time)
    _before: tuple[float, float] = (0.0, 0.0)
    _noted: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        try:
            wall, cpu = json.loads(self.file.read_text())
            self._before = float(wall), float(cpu)
        except FileNotFoundError:
            pass
        except (ValueError, TypeError):
            pass  # a damaged note costs a count of seconds, not the run

    @property
    def seconds(self) -> float:
        """Seconds that passed, waiting included."""
        return self._before[0] + time.monotonic() - self._wall

    @property
    def cpu_seconds(self) -> float:
        """Seconds that the processor worked for us: the cost, whoever else was on the machine."""
        return self._before[1] + time.process_time() - self._cpu

    def tick(self) -> None:
        """Note the count if enough time has passed."""
        if time.monotonic() - self._noted >= _SECONDS:
            self.note()

    def note(self) -> None:
        """Write the count down."""
        replace(self.file, json.dumps([self.seconds, self.cpu_seconds]).encode())
        self._noted = time.monotonic()
