"""Strategies side by side: tune, learn, collect. The one way from settings to a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from headwater.experiments.experiment import Experiment
from headwater.experiments.many_cores import Watch
from headwater.experiments.table import Contents, DataCounts, Planned, Table
from headwater.experiments.training_run import Outcome, TrainingRun
from headwater.experiments.tuning import Tuning, choose_rate
from headwater.ledger.strategies import Strategy

Watching = Callable[[str, Sequence[TrainingRun]], AbstractContextManager[Watch]]
"""(what is being done, the runs to do) -> something that watches them."""


@dataclass(frozen=True)
class Entrant:
    """A strategy that takes part, for one seed.

    Attributes:
        label: The name under which its runs are stored.
        strategy: How much each sample counts.
        about: What it is, in a few words.
        weights: A name for the importances that it gives, where they are known before.
    """

    label: str
    strategy: Strategy
    about: str = ""
    weights: str = ""


@dataclass(frozen=True)
class Comparison:
    """What to compare, and how.

    Attributes:
        experiment: Task, settings, and where everything is stored.
        entrants: For each seed, line -> who takes part.
        tuning: How the learning rate is chosen.
        command: What the user typed.
        adds: Keep the lines and seeds that the table had before, and their learning rate.
    """

    experiment: Experiment
    entrants: Sequence[Mapping[str, Entrant]]
    tuning: Tuning
    command: str = ""
    adds: bool = False

    def run(self, watching: Watching, processes: int | None = None) -> Table:
        """Tune, learn, collect; whatever is stored already is not done again."""
        log = self.experiment.log
        before = Contents.load(log) if self.adds else None
        rate, tried = self.tune(watching, processes, before)
        contents = self._contents(rate, tried).added_to(before)
        contents.save(log)
        runs = [
            self._training(entrant, seed, rate)
            for seed, entrants in enumerate(self.entrants)
            for entrant in entrants.values()
        ]
        self._train(runs, "learning", watching, processes)
        table = Table.load(log.file)
        assert table is not None
        return table

    def tune(
        self, watching: Watching, processes: int | None = None, before: Contents | None = None
    ) -> tuple[float, tuple[float, ...]]:
        """Choose the learning rate; also give all that were tried.

        A single rate is taken as it is; a table that has one keeps it when lines are added.
        """
        if len(self.tuning.rates) == 1:
            return self.tuning.rates[0], ()
        if before is not None and before.tuning == self.tuning:
            there = {line.learning_rate for line in before.lines.values()}
            if len(there) == 1:
                return there.pop(), before.tried
        return choose_rate(self.tuning, lambda rates: self._attempt(rates, watching, processes))

    def _attempt(
        self, rates: Sequence[float], watching: Watching, processes: int | None
    ) -> dict[float, list[Outcome]]:
        """Tuning runs of all lines; a run that stands in two lines counts for both."""
        runs = {
            rate: [
                self._training(entrant, seed, rate, tuning=True)
                for seed, entrants in enumerate(self.entrants[: self.tuning.seeds])
                for entrant in entrants.values()
            ]
            for rate in rates
        }
        together = [run for group in runs.values() for run in group]
        found = self._train(together, "tuning", watching, processes)
        name = self.experiment.identity
        return {rate: [found[name(run)] for run in group] for rate, group in runs.items()}

    def _train(
        self, runs: Sequence[TrainingRun], what: str, watching: Watching, processes: int | None
    ) -> dict[str, Outcome]:
        there = self.experiment.outcomes()
        different = {self.experiment.identity(run): run for run in runs}
        todo = [run for name, run in different.items() if name not in there]
        with watching(what, todo) as watch:
            return self.experiment.train_all(runs, watch, processes)

    def _training(
        self, entrant: Entrant, seed: int, rate: float, *, tuning: bool = False
    ) -> TrainingRun:
        rounds = self.tuning.rounds if tuning else self.experiment.setup.rounds
        who, weights = (entrant.label, entrant.strategy), entrant.weights
        return TrainingRun(*who, seed, rate, rounds, tuning, weights)

    def _contents(self, rate: float, tried: tuple[float, ...]) -> Contents:
        lines = {
            name: Planned(first.about, rate, self._identities(name, rate))
            for name, first in self.entrants[0].items()
        }
        return Contents(self.tuning, tried, self._counts(), self.command, lines)

    def _identities(self, line: str, rate: float) -> dict[int, str]:
        return {
            seed: self.experiment.identity(self._training(entrants[line], seed, rate))
            for seed, entrants in enumerate(self.entrants)
        }

    def _counts(self) -> DataCounts:
        """Counts of the first seed."""
        task, setup = self.experiment.task, self.experiment.setup
        final = task.split(setup.historical, setup.rounds, 0).final
        counts, old = final.train.counts, final.holdings(setup.rounds, 0).historical
        tested = 0 if final.test is None else int(final.test.offsets[-1])
        return DataCounts(
            task.complete,
            len(old),
            int(old.sum()),
            int(counts.sum()),
            int(counts[old].sum()),
            tested,
        )
