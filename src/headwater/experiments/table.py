"""A table as it is stored: read without data and without training, whatever is finished by now.

Its log holds the settings, the outcome of every run, estimates, and for every command that added to
it a line of kind ``lines``: which run stands in which line for which seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from headwater.errors import InputError
from headwater.experiments.over_seeds import Line
from headwater.experiments.run_log import RunLog
from headwater.experiments.training_run import Outcome, Setup
from headwater.experiments.tuning import Tuning


@dataclass(frozen=True)
class DataCounts:
    """What the clients learn from.

    Attributes:
        complete: Whether it is the whole original.
        clients: How many there are, M.
        historical_clients: How many of them are historical, M_hist.
        samples: Training samples of all clients, N.
        historical_samples: Training samples of the historical clients, N_hist.
        test_samples: Samples that models are tested on.
    """

    complete: bool
    clients: int
    historical_clients: int
    samples: int
    historical_samples: int
    test_samples: int


@dataclass(frozen=True)
class Planned:
    """A line as a command has asked for it.

    Attributes:
        about: What it is.
        learning_rate: Its rate.
        runs: Seed -> identity of the run that stands there.
    """

    about: str
    learning_rate: float
    runs: Mapping[int, str]

    def with_seeds(self, before: Planned | None) -> Planned:
        """Together with the seeds that were there, if they have the same rate."""
        if before is None or before.learning_rate != self.learning_rate:
            return self
        return Planned(self.about, self.learning_rate, {**before.runs, **self.runs})


@dataclass(frozen=True)
class Contents:
    """Which run stands where in a table, and how it was obtained.

    Attributes:
        tuning: How the rate was chosen.
        tried: All rates that were tried; empty if it was given.
        data: Counts of the first seed.
        command: What the user typed last.
        lines: Name -> line.
    """

    tuning: Tuning
    tried: tuple[float, ...]
    data: DataCounts
    command: str
    lines: Mapping[str, Planned] = field(default_factory=dict)

    def added_to(self, before: Contents | None) -> Contents:
        """With the lines and seeds that were there, unless they were tuned in another way."""
        if before is None or before.tuning != self.tuning:
            return self
        ours = {name: p.with_seeds(before.lines.get(name)) for name, p in self.lines.items()}
        lines = {**before.lines, **ours}
        return Contents(self.tuning, self.tried or before.tried, self.data, self.command, lines)

    def save(self, log: RunLog) -> None:
        """Append it to the log, unless it stands there already."""
        if Contents.load(log) != self:
            log.append("lines", {"number": len(log.read("lines")), **asdict(self)})

    @classmethod
    def load(cls, log: RunLog) -> Contents | None:
        """The last that was saved, or None."""
        saved = log.read("lines")
        return cls._of(max(saved, key=lambda line: line["number"])) if saved else None

    @classmethod
    def _of(cls, saved: Mapping[str, Any]) -> Contents:
        tuning = Tuning(**{**saved["tuning"], "rates": tuple(saved["tuning"]["rates"])})
        lines = {
            name: Planned(**{**line, "runs": {int(s): run for s, run in line["runs"].items()}})
            for name, line in saved["lines"].items()
        }
        data = DataCounts(**saved["data"])
        return cls(tuning, tuple(saved["tried"]), data, saved["command"], lines)


@dataclass(frozen=True)
class Table:
    """All that is stored of one table.

    Attributes:
        task: What was learned.
        fraction_of: What ``setup.historical`` is a fraction of.
        setup: Fraction, T, E and K.
        contents: Which run stands where.
        outcomes: Every finished run by its identity.
        estimates: Seed -> what was estimated for it, as stored.
    """

    task: str
    fraction_of: str
    setup: Setup
    contents: Contents
    outcomes: Mapping[str, Outcome]
    estimates: Mapping[int, Mapping[str, Any]]

    @classmethod
    def load(cls, file: Path) -> Table | None:
        """The table in a log, or None if nothing has been run for it."""
        log = RunLog(file)
        contents, settings = Contents.load(log), log.read("settings")
        if contents is None:
            return None
        if not settings:
            raise InputError(f"{file}: no settings in it; run the command that made it again")
        known = dict(settings[0])
        task, fraction_of = known.pop("task"), known.pop("fraction_of")
        outcomes = {line["id"]: Outcome.of_json(line) for line in log.read("run")}
        estimates = {line["seed"]: line for line in log.read("estimate")}
        return cls(task, fraction_of, Setup(**known), contents, outcomes, estimates)

    @cached_property
    def lines(self) -> dict[str, Line]:
        """The lines that have at least one finished seed."""
        found = {name: self._line(name) for name in self.contents.lines}
        return {name: line for name, line in found.items() if line.outcomes}

    @property
    def wanted(self) -> set[str]:
        """The identities of all runs that stand in a line."""
        return {run for line in self.contents.lines.values() for run in line.runs.values()}

    @property
    def finished(self) -> dict[str, Outcome]:
        """Every different finished run that stands in a line."""
        return {name: self.outcomes[name] for name in self.wanted if name in self.outcomes}

    @property
    def missing(self) -> int:
        """How many different runs are still to be done."""
        return len(self.wanted) - len(self.finished)

    def _line(self, name: str) -> Line:
        planned = self.contents.lines[name]
        there = {s: self.outcomes[r] for s, r in planned.runs.items() if r in self.outcomes}
        outcomes = {seed: there[seed] for seed in sorted(there)}
        return Line(name, planned.about, planned.learning_rate, outcomes, len(planned.runs))
