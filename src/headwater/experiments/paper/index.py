"""What belongs to a table, on disk: which stored cell stands in which line, and how it was
obtained.

A table's folder holds ``settings.json`` (task, fraction, T, E, K), ``index.json`` (this),
``estimates/`` and a folder for each cell. Everything that is printed is made from these alone,
without data and without training.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headwater.experiments.cells import read_settings
from headwater.files import replace


@dataclass(frozen=True)
class Tuning:
    """How learning rates were chosen.

    Attributes:
        rates: to choose from; a single one is given, not chosen.
        rounds: T of the tuning runs.
        seeds: seeds of the tuning runs.
    """

    rates: tuple[float, ...]
    rounds: int
    seeds: int


@dataclass(frozen=True)
class Data:
    """What the clients learn from.

    Attributes:
        complete: whether it is the whole original.
        clients, historical_clients, samples, historical_samples, test_samples: M, M_hist, N,
            N_hist, …
    """

    complete: bool
    clients: int
    historical_clients: int
    samples: int
    historical_samples: int
    test_samples: int


@dataclass(frozen=True)
class Index:
    """Which cell stands where.

    Attributes:
        lines: line -> what it is.
        cells: line -> seed -> the cell's name.
        rates: line -> learning rate.
    """

    tuning: Tuning
    data: Data
    command: str
    lines: Mapping[str, str] = field(default_factory=dict)
    cells: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> Index | None:
        """The index of a table's folder, or None."""
        file = folder / "index.json"
        if not file.exists():
            return None
        found: dict[str, Any] = read_settings(file)
        tuning = Tuning(**{**found["tuning"], "rates": tuple(found["tuning"]["rates"])})
        cells = {
            line: {int(s): name for s, name in seeds.items()}
            for line, seeds in found["cells"].items()
        }
        return cls(
            tuning, Data(**found["data"]), found["command"], found["lines"], cells, found["rates"]
        )

    def save(self, folder: Path) -> None:
        """Write it, together with the lines and seeds of an index that is there, if they were tuned
        alike."""
        before = Index.load(folder)
        merged = self if before is None or before.tuning != self.tuning else self._with(before)
        replace(folder / "index.json", json.dumps(asdict(merged), indent=1).encode())

    def _with(self, before: Index) -> Index:
        """Ours where both know something; a line whose learning rate has changed is ours alone."""
        cells = {line: dict(seeds) for line, seeds in before.cells.items()}
        for line, seeds in self.cells.items():
            same = before.rates.get(line) == self.rates[line]
            cells[line] = {**cells.get(line, {}), **seeds} if same else dict(seeds)
        rates = {**before.rates, **self.rates}
        return Index(
            self.tuning, self.data, self.command, {**before.lines, **self.lines}, cells, rates
        )
