"""One table of the paper: a data set with one fraction, all lines, all seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from headwater.errors import InputError
from headwater.experiments.comparison import Comparison, Entrant, Watching
from headwater.experiments.experiment import Experiment
from headwater.experiments.paper.grid import table_file
from headwater.experiments.paper.lines import Definition, definitions, entrant
from headwater.experiments.paper.ratios import NO_RATIOS, Ratios, find_ratios
from headwater.experiments.run_log import RunLog
from headwater.experiments.table import Table
from headwater.experiments.tasks.task import Task
from headwater.experiments.training_run import Setup
from headwater.experiments.tuning import Tuning
from headwater.learning.estimation import resolve
from headwater.ledger.orders import LocalWork


@dataclass(frozen=True)
class Study:
    """What to run for a table, and where it goes.

    Attributes:
        task: The data set's task.
        setup: Fraction, T, E, K: the same for all lines.
        seeds: How many; each has its own partition, model and batches.
        tuning: How the learning rate is chosen.
        results: Folder of what is kept.
        folder: Folder of what only the runs need.
        only: Lines to run; None stands for the usual ones.
        command: What the user typed.
    """

    task: Task
    setup: Setup
    seeds: int
    tuning: Tuning
    results: Path
    folder: Path
    only: tuple[str, ...] | None = None
    command: str = ""

    @cached_property
    def experiment(self) -> Experiment:
        """The runs of the table."""
        log = RunLog(table_file(self.results, self.task.name, self.setup.historical))
        return Experiment(self.task, self.setup, self.folder, log)

    def run(self, watching: Watching, processes: int | None = None) -> Table:
        """Estimate if a line asks for it, tune, learn; what is stored is not done again."""
        torch.set_num_threads(1)
        self.experiment.open()
        wanted = self._wanted()
        asked = {line.asks for line in wanted.values()} - {""}
        ratios = [NO_RATIOS] * self.seeds
        if asked:
            ratios = find_ratios(self.experiment, self.seeds, "measured" in asked, processes)
        entrants = _in_all([self._entrants(seed, wanted, r) for seed, r in enumerate(ratios)])
        comparison = Comparison(self.experiment, entrants, self.tuning, self.command, adds=True)
        return comparison.run(watching, processes)

    def _wanted(self) -> dict[str, Definition]:
        everything = definitions(self.task.name, self.setup.historical).items()
        if self.only is None:
            return {name: line for name, line in everything if line.usual}
        return {name: line for name, line in everything if name in self.only}

    def _entrants(
        self, seed: int, wanted: Mapping[str, Definition], ratios: Ratios
    ) -> dict[str, Entrant]:
        setup = self.setup
        final = self.task.split(setup.historical, setup.rounds, seed).final
        work = LocalWork(setup.local_steps, setup.batch_size, seed=seed)
        holdings = replace(final.holdings(setup.rounds, seed), drawing=work)
        model, loss = self.task.model(seed), self.task.defaults.loss
        found = {}
        for name, line in wanted.items():
            strategy = line.strategy(ratios)
            if strategy is not None:
                # What a strategy still has to measure is measured now: lines may then coincide.
                try:
                    known = resolve(strategy, model, final, holdings, loss, seed)
                except InputError:
                    if self.only is None:
                        continue  # these samples do not tell; nobody has asked for this line
                    raise
                found[name] = entrant(known, line.about, holdings)
        return found


def _in_all(entrants: Sequence[Mapping[str, Entrant]]) -> list[dict[str, Entrant]]:
    """Only the lines that every seed has."""
    shared = [name for name in entrants[0] if all(name in others for others in entrants)]
    return [{name: others[name] for name in shared} for others in entrants]
