"""One table of the paper: a data set with one fraction of historical samples, all strategies, all
seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from headwater.experiments.cells import Cell, Result, Setup
from headwater.experiments.experiment import Experiment
from headwater.experiments.paper.estimates import find_all_ratios, find_ratios
from headwater.experiments.paper.index import Data, Index, Tuning
from headwater.experiments.paper.rows import Choice, choose, lines
from headwater.experiments.parallel import Watch, run_cells
from headwater.experiments.summary import best_rate
from headwater.experiments.tasks.task import Task
from headwater.ledger.holdings import Holdings

Watching = Callable[[str, int, int], AbstractContextManager[Watch]]
"""(what, rounds, cells) -> something that watches them."""


def table_folder(results: Path, dataset: str, historical: float) -> Path:
    """Where a table's results are kept.

    >>> table_folder(Path("docs/results"), "cifar10", 0.2).as_posix()
    'docs/results/cells/cifar10-20'
    """
    return results / "cells" / f"{dataset}-{100 * historical:g}"


@dataclass(frozen=True)
class Study:
    """What to run for a table, and where it goes.

    Attributes:
        setup: fraction, T, E, K: the same for all strategies.
        seeds: 0, 1, …: each its own partition, model and batches.
        tuning: how the learning rate is chosen.
        results: folder for what is kept.
        folder: folder for what only the run needs.
        only: lines to run; None: all.
        command: what the user typed.
    """

    task: Task
    setup: Setup
    seeds: int
    tuning: Tuning
    results: Path
    folder: Path
    only: tuple[str, ...] | None = None
    command: str = ""

    @property
    def kept(self) -> Path:
        """The table's folder among the results."""
        return table_folder(self.results, self.task.name, self.setup.historical)

    @cached_property
    def experiment(self) -> Experiment:
        """The runs that are reported."""
        return Experiment(self.task, self.setup, self.folder, self.kept)

    @cached_property
    def trials(self) -> Experiment:
        """The runs that choose the learning rate."""
        setup = replace(self.setup, rounds=self.tuning.rounds)
        name = f"tuning-{self.tuning.rounds}"
        return Experiment(self.task, setup, self.folder / name, self.kept / name)

    def run(self, watching: Watching, processes: int | None = None) -> None:
        """Estimate, tune, learn; whatever is stored already is not done again."""
        torch.set_num_threads(1)
        self.experiment.open()
        find_all_ratios(
            self.task, self.setup, range(self.seeds), self.kept / "estimates", processes
        )
        choices = _in_all([self._choices(seed) for seed in range(self.seeds)])
        rates = self._tuned(choices[: self.tuning.seeds], watching, processes)
        self._index(choices, rates).save(self.kept)
        cells = [
            self._cell(chosen[line], seed, rates[line])
            for seed, chosen in enumerate(choices)
            for line in chosen
        ]
        self._all(self.experiment, cells, "learning", watching, processes)

    def _choices(self, seed: int) -> dict[str, Choice]:
        ratios = find_ratios(self.task, self.setup, seed, self.kept / "estimates")
        holdings = self._holdings(seed)
        wanted = lines(self.task.name, self.setup.historical).items()
        strategies = {
            name: line.strategy(ratios)
            for name, line in wanted
            if not self.only or name in self.only
        }
        return {name: choose(s, holdings) for name, s in strategies.items() if s is not None}

    def _holdings(self, seed: int) -> Holdings:
        split = self.task.split(self.setup.historical, self.setup.rounds, seed)
        return split.final.holdings(self.setup.rounds, seed)

    def _tuned(
        self, choices: Sequence[dict[str, Choice]], watching: Watching, processes: int | None
    ) -> dict[str, float]:
        """A rate for each line; a single rate is taken as it is."""
        rates = self.tuning.rates
        if len(rates) == 1:
            return dict.fromkeys(choices[0], rates[0])
        self.trials.open()
        cells = {
            line: [
                self._cell(chosen[line], seed, rate, tuning=True)
                for seed, chosen in enumerate(choices)
                for rate in rates
            ]
            for line in choices[0]
        }
        found = self._all(
            self.trials,
            [c for group in cells.values() for c in group],
            "tuning",
            watching,
            processes,
        )
        return {line: best_rate((c, found[c.name]) for c in group) for line, group in cells.items()}

    def _all(
        self,
        experiment: Experiment,
        cells: Sequence[Cell],
        what: str,
        watching: Watching,
        processes: int | None,
    ) -> dict[str, Result]:
        """Every different cell once."""
        once = list({cell.name: cell for cell in cells}.values())
        with watching(what, experiment.setup.rounds, len(once)) as watch:
            results = run_cells(experiment, once, watch, processes)
        return {cell.name: result for cell, result in zip(once, results, strict=True)}

    def _cell(self, choice: Choice, seed: int, rate: float, *, tuning: bool = False) -> Cell:
        return Cell(choice.label, choice.strategy, seed, rate, tuning)

    def _index(self, choices: Sequence[dict[str, Choice]], rates: dict[str, float]) -> Index:
        about = {
            name: line.about for name, line in lines(self.task.name, self.setup.historical).items()
        }
        names = {
            line: {
                seed: self._cell(chosen[line], seed, rate).name
                for seed, chosen in enumerate(choices)
            }
            for line, rate in rates.items()
        }
        return Index(self.tuning, self._data(), self.command, about, names, rates)

    def _data(self) -> Data:
        """Counts of the first seed."""
        final = self.task.split(self.setup.historical, self.setup.rounds, 0).final
        counts, old = final.train.counts, self._holdings(0).historical
        tested = 0 if final.test is None else int(final.test.offsets[-1])
        numbers = (len(old), int(old.sum()), int(counts.sum()), int(counts[old].sum()), tested)
        return Data(self.task.complete, *numbers)


def _in_all(choices: Sequence[dict[str, Choice]]) -> list[dict[str, Choice]]:
    """Only the lines that every seed has."""
    shared = [name for name in choices[0] if all(name in chosen for chosen in choices)]
    return [{name: chosen[name] for name in shared} for chosen in choices]
