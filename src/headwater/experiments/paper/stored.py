"""Tables as they are stored: read without data and without training, whatever is finished by
now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from headwater.experiments.cells import Result, Setup, read_records, read_settings
from headwater.experiments.paper.estimates import Ratios
from headwater.experiments.paper.index import Index
from headwater.experiments.paper.published import FRACTIONS, TABLES, Published
from headwater.experiments.paper.rows import OPTIMAL, grid_lines
from headwater.experiments.paper.study import table_folder
from headwater.experiments.summary import Interval
from headwater.learning.algorithm import Record


@dataclass(frozen=True)
class Entry:
    """One line of a table with the seeds that are finished.

    Attributes:
        results: seed -> what came out.
        planned: how many seeds there will be.
    """

    name: str
    about: str
    learning_rate: float
    results: Mapping[int, Result]
    planned: int

    @property
    def accuracy(self) -> Interval:
        """Test accuracy of the last iterate, over the finished seeds."""
        return Interval.of([r.accuracy for r in self.results.values()])

    @property
    def average_accuracy(self) -> Interval:
        """Test accuracy of Algorithm 1's average."""
        return Interval.of([r.average_accuracy for r in self.results.values()])

    def mean(self, name: str) -> float:
        """Mean of another of the results' numbers."""
        return float(np.mean([getattr(r, name) for r in self.results.values()]))

    def minus(self, other: Entry) -> Interval | None:
        """Difference in accuracy, seed by seed; None if they share no seed."""
        common = sorted(set(self.results) & set(other.results))
        gaps = [self.results[s].accuracy - other.results[s].accuracy for s in common]
        return Interval.of(gaps) if gaps else None


@dataclass(frozen=True)
class Table:
    """All that is stored of one table."""

    dataset: str
    setup: Setup
    index: Index
    ratios: Mapping[int, Ratios]
    folder: Path

    @classmethod
    def load(cls, results: Path, dataset: str, historical: float) -> Table | None:
        """The table, or None if nothing has been run for it."""
        folder = table_folder(results, dataset, historical)
        index = Index.load(folder)
        if index is None:
            return None
        settings = read_settings(folder / "settings.json")
        setup = Setup(**{k: v for k, v in settings.items() if k != "task"})
        files = sorted((folder / "estimates").glob("seed-*.json"))
        ratios = {int(f.stem.removeprefix("seed-")): Ratios(**read_settings(f)) for f in files}
        return cls(dataset, setup, index, ratios, folder)

    @property
    def published(self) -> Published | None:
        """The paper's line, if it has one for this fraction."""
        return TABLES.get(self.setup.historical, {}).get(self.dataset)

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """The lines that have at least one finished seed; the best of the grid once all of the grid
        have."""
        found = {name: self._entry(name) for name in self.index.cells}
        found = {name: entry for name, entry in found.items() if entry.results}
        best = _best(found)
        return found if best is None else {**found, OPTIMAL: best}

    @property
    def missing(self) -> int:
        """How many different runs are still to be done."""
        names = {name for seeds in self.index.cells.values() for name in seeds.values()}
        return sum(not (self.folder / name / "result.json").exists() for name in names)

    def curves(self, name: str) -> list[list[Record]]:
        """The tested rounds of a line's finished seeds."""
        cells = [self.folder / cell for cell in self.index.cells.get(name, {}).values()]
        return [read_records(c / "rounds.jsonl") for c in cells if (c / "result.json").exists()]

    def finished(self) -> dict[str, Result]:
        """Every different finished run by its name."""
        names = sorted({name for seeds in self.index.cells.values() for name in seeds.values()})
        files = {name: self.folder / name / "result.json" for name in names}
        return {name: Result(**read_settings(f)) for name, f in files.items() if f.exists()}

    def _entry(self, name: str) -> Entry:
        files = {
            seed: self.folder / cell / "result.json"
            for seed, cell in self.index.cells[name].items()
        }
        results = {
            seed: Result(**read_settings(f)) for seed, f in sorted(files.items()) if f.exists()
        }
        return Entry(name, self.index.lines[name], self.index.rates[name], results, len(files))


def load_tables(results: Path, dataset: str) -> list[Table]:
    """The stored tables of a data set, smallest fraction first."""
    found = (Table.load(results, dataset, fraction) for fraction in FRACTIONS)
    return [table for table in found if table is not None]


def _best(entries: Mapping[str, Entry]) -> Entry | None:
    """The line of the grid with the best mean accuracy over the seeds that all of them have."""
    grid = [entries[name] for name in grid_lines(entries)]
    common = set.intersection(*(set(e.results) for e in grid)) if len(grid) == 5 else set()
    if not common:
        return None
    best = max(grid, key=lambda e: float(np.mean([e.results[s].accuracy for s in common])))
    results = {seed: best.results[seed] for seed in sorted(common)}
    return Entry(
        OPTIMAL, f"best of the grid: {best.about}", best.learning_rate, results, best.planned
    )
