"""An experiment: training runs on one task that share their settings, each stored as soon as it is
finished.

It falls into cells, one training run each, that know nothing of each other: cells run on as many
cores as there are, one thread each. So an experiment that was killed goes on where it was, and
neither the number of cores nor the order of the cells changes a bit of the result.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headwater.errors import InputError
from headwater.experiments.cells import Cell, Result, Setup, machine, read_records, read_settings
from headwater.experiments.stopwatch import Stopwatch
from headwater.experiments.tasks.task import Task
from headwater.files import replace, sweep
from headwater.learning.algorithm import DivergedError, Record
from headwater.learning.evaluation import evaluate
from headwater.learning.federation import Federation
from headwater.learning.simulation import Run, simulate


@dataclass(frozen=True)
class Experiment:
    """Cells of a task in a folder.

    Attributes:
        folder: of the run: settings, and for each cell its rounds, models, and what a killed one
            needs to go on.
        kept: a second folder, for the little that is worth keeping: results, and the rounds in
            which a cell was tested. None: everything is in the run's folder.
    """

    task: Task
    setup: Setup
    folder: Path
    kept: Path | None = None

    def open(self) -> None:
        """Take the folder, unless it holds an experiment with other settings."""
        for folder, option in ((self.folder, "--out"), (self.kept, "--results")):
            if folder is not None:
                _take(folder, {"task": self.task.name, **asdict(self.setup)}, option)

    def result(self, cell: Cell) -> Result | None:
        """What a finished cell gave, or None."""
        file = self._home(cell) / "result.json"
        return Result(**read_settings(file)) if file.exists() else None

    def records(self, cell: Cell) -> list[Record]:
        """A finished cell's rounds; only the tested ones if results are kept apart, and none of
        tuning cells."""
        return read_records(self._home(cell) / "rounds.jsonl")

    def run(self, cell: Cell, progress: Callable[[Record], None] | None = None) -> Result:
        """Run a cell, or go on with it; store its models and its result."""
        folder = self._workshop(cell)
        sweep(folder)
        watch = Stopwatch(folder / "spent.json")

        def see(record: Record) -> None:
            watch.tick()
            if progress:
                progress(record)

        federation = self._federation(cell)
        try:
            run = self._learn(cell, federation, see)
        except DivergedError as error:
            if not cell.tuning:
                raise DivergedError(f"{cell.label}, seed {cell.seed}: {error}") from None
            result = _diverged(str(error), watch)
        else:
            result = _result(run, federation, watch)
            if not cell.tuning:
                _save_models(run, folder)
        self._keep(cell, result)
        return result

    def _learn(self, cell: Cell, federation: Federation, see: Callable[[Record], None]) -> Run:
        s = self.setup
        return simulate(
            self.task.model(cell.seed),
            federation,
            cell.strategy,
            s.rounds,
            s.local_steps,
            s.batch_size,
            cell.learning_rate,
            cell.seed,
            workers=0,
            test_every=max(1, s.rounds // self.task.defaults.tests),
            checkpoint=self._workshop(cell),
            progress=see,
        )

    def _keep(self, cell: Cell, result: Result) -> None:
        """Store the result last: where it is, the cell is finished. What only a running cell needs
        goes."""
        home, folder = self._home(cell), self._workshop(cell)
        if home != folder and not cell.tuning:
            tested = [r for r in read_records(folder / "rounds.jsonl") if r.accuracy is not None]
            replace(
                home / "rounds.jsonl",
                "".join(json.dumps(asdict(r)) + "\n" for r in tested).encode(),
            )
        replace(home / "result.json", json.dumps(asdict(result), indent=1).encode())
        for name in ("state.npz", "spent.json"):
            (folder / name).unlink(missing_ok=True)

    def _federation(self, cell: Cell) -> Federation:
        split = self.task.split(self.setup.historical, self.setup.rounds, cell.seed)
        return split.tuning if cell.tuning else split.final

    def _workshop(self, cell: Cell) -> Path:
        return self.folder / "cells" / cell.name

    def _home(self, cell: Cell) -> Path:
        return self._workshop(cell) if self.kept is None else self.kept / cell.name


def _take(folder: Path, mine: dict[str, Any], option: str) -> None:
    file = folder / "settings.json"
    if file.exists():
        theirs = read_settings(file)
        other = [
            f"{k}: {theirs.get(k)!r} there, {v!r} now"
            for k, v in mine.items()
            if theirs.get(k) != v
        ]
        if other:
            raise InputError(
                f"{folder} holds a run with other settings ({'; '.join(other)}); "
                f"choose another folder with {option}, or delete that one"
            )
    elif folder.exists() and any(folder.iterdir()):
        raise InputError(
            f"{folder} is not empty and holds no run; choose another folder with {option}"
        )
    else:
        replace(file, json.dumps(mine, indent=2).encode())


def _result(run: Run, federation: Federation, watch: Stopwatch) -> Result:
    assert federation.test is not None
    average = float(np.nanmean(evaluate(run.average, federation.test).accuracy))
    last, ledger = run.history[-1], run.ledger
    assert last.accuracy is not None
    assert last.loss is not None
    samples = sum(record.samples for record in run.history)
    return Result(
        last.accuracy,
        last.loss,
        average,
        ledger.historical_share,
        ledger.effective_samples,
        ledger.variability,
        samples,
        watch.seconds,
        watch.cpu_seconds,
        machine(),
    )


def _diverged(message: str, watch: Stopwatch) -> Result:
    spent = watch.seconds, watch.cpu_seconds, machine()
    return Result(0.0, float("inf"), 0.0, 0.0, 0.0, 0.0, 0, *spent, diverged=message)


def _save_models(run: Run, folder: Path) -> None:
    for name, model in (("model", run.model), ("average", run.average)):
        buffer = BytesIO()
        torch.save(model.state_dict(), buffer)
        replace(folder / f"{name}.pt", buffer.getvalue())
