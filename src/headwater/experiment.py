"""An experiment: strategies side by side on one task, several seeds, the learning rate tuned on validation data.

It falls into cells, one training run each, that know nothing of each other: cells run on as many cores as there
are, one thread each, and every finished cell is stored at once. So an experiment that was killed goes on where it
was, and neither the number of cores nor the order of the cells changes a bit of the result.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headwater.errors import InputError
from headwater.evaluate import evaluate
from headwater.files import replace
from headwater.learner import DivergedError, Record
from headwater.simulate import Run, simulate
from headwater.strategies import Strategy
from headwater.tasks.task import Task


@dataclass(frozen=True)
class Setup:
    """What all cells of an experiment share.

    Attributes:
        historical: the fraction of the samples that is there before round 1.
        rounds, local_steps, batch_size: T, E, K.
    """

    historical: float
    rounds: int
    local_steps: int
    batch_size: int | None


@dataclass(frozen=True)
class Cell:
    """One training run.

    Attributes:
        label: the strategy's name in tables and folders.
        tuning: learn from the training part and test on the validation part; else from both, and test on the
            test part.
    """

    label: str
    strategy: Strategy
    seed: int
    learning_rate: float
    tuning: bool

    @property
    def name(self) -> str:
        """Where it is stored, below the experiment's folder."""
        kind = f"tune-{self.learning_rate:.6g}" if self.tuning else f"final-{self.learning_rate:.6g}"
        return f"cells/{self.label}/seed-{self.seed}/{kind}"


@dataclass(frozen=True)
class Result:
    """What came out of a cell; accuracies are means over clients, from 0 to 1.

    Attributes:
        accuracy, loss: of the last iterate.
        average_accuracy: of the q-weighted average, Algorithm 1's output.
        historical_share, effective_samples, variability: of its ledger.
        samples: gradients computed.
        diverged: the round in which it diverged, if it did; its accuracy is 0 then.
        seconds: of training and testing, on one core.
    """

    accuracy: float
    loss: float
    average_accuracy: float
    historical_share: float
    effective_samples: float
    variability: float
    samples: int
    seconds: float
    diverged: str | None = None


@dataclass(frozen=True)
class Experiment:
    """Cells of a task in a folder."""

    task: Task
    setup: Setup
    folder: Path

    def open(self) -> None:
        """Take the folder, unless it holds an experiment with other settings."""
        mine = {"task": self.task.name, **asdict(self.setup)}
        file = self.folder / "settings.json"
        if file.exists():
            theirs = _read(file)
            other = [f"{k}: {theirs.get(k)!r} there, {v!r} now" for k, v in mine.items() if theirs.get(k) != v]
            if other:
                raise InputError(
                    f"{self.folder} holds a run with other settings ({'; '.join(other)}); "
                    "choose another folder with --out, or delete that one"
                )
        elif self.folder.exists() and any(self.folder.iterdir()):
            raise InputError(f"{self.folder} is not empty and holds no run; choose another folder with --out")
        else:
            replace(file, json.dumps(mine, indent=2).encode())

    def result(self, cell: Cell) -> Result | None:
        """What a finished cell gave, or None."""
        file = self.folder / cell.name / "result.json"
        return Result(**_read(file)) if file.exists() else None

    def records(self, cell: Cell) -> list[Record]:
        """A finished cell's rounds."""
        lines = (self.folder / cell.name / "rounds.jsonl").read_text().splitlines()
        return [Record(**json.loads(line)) for line in lines]

    def run(self, cell: Cell, progress: Callable[[Record], None] | None = None) -> Result:
        """Run a cell, or go on with it; store its models and its result."""
        started = time.perf_counter()
        folder = self.folder / cell.name
        federation = self._federation(cell)
        try:
            run = simulate(
                self.task.model(cell.seed), federation, cell.strategy, self.setup.rounds, self.setup.local_steps,
                self.setup.batch_size, cell.learning_rate, cell.seed, workers=0, checkpoint=folder,
                progress=progress,
            )  # fmt: skip
        except DivergedError as error:
            if not cell.tuning:
                raise DivergedError(f"{cell.label}, seed {cell.seed}: {error}") from None
            result = Result(0.0, float("inf"), 0.0, 0.0, 0.0, 0.0, 0, 0.0, diverged=str(error))
        else:
            result = self._result(run, cell, time.perf_counter() - started)
            if not cell.tuning:
                _save_models(run, folder)
        replace(folder / "result.json", json.dumps(asdict(result)).encode())
        (folder / "state.npz").unlink(missing_ok=True)  # the models are stored; a finished cell needs no state
        return result

    def _federation(self, cell: Cell) -> Any:
        split = self.task.split(self.setup.historical, self.setup.rounds, cell.seed)
        return split.tuning if cell.tuning else split.final

    def _result(self, run: Run, cell: Cell, seconds: float) -> Result:
        test = self._federation(cell).test
        average = float(evaluate(run.average, test).accuracy.mean())
        last, ledger = run.history[-1], run.ledger
        assert last.accuracy is not None
        assert last.loss is not None
        samples = sum(record.samples for record in run.history)
        return Result(last.accuracy, last.loss, average, ledger.historical_share, ledger.effective_samples,
                      ledger.variability, samples, seconds)  # fmt: skip


def best_rate(results: Iterable[tuple[Cell, Result]]) -> float:
    """The learning rate with the best mean validation accuracy; of equals the one with the smallest loss."""
    scores: dict[float, list[tuple[float, float]]] = {}
    for cell, result in results:
        scores.setdefault(cell.learning_rate, []).append((result.accuracy, -result.loss))
    means = {rate: tuple(np.mean(values, axis=0)) for rate, values in scores.items()}
    rate = max(means, key=lambda r: means[r])
    if means[rate][0] == 0.0:
        raise DivergedError("every learning rate of the grid diverged; give a smaller one with --learning-rate")
    return rate


def _save_models(run: Run, folder: Path) -> None:
    for name, model in (("model", run.model), ("average", run.average)):
        buffer = BytesIO()
        torch.save(model.state_dict(), buffer)
        replace(folder / f"{name}.pt", buffer.getvalue())


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text())
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read ({error}); delete it and run the same command again") from error
    if not isinstance(content, dict):
        raise InputError(f"{file}: expected settings in braces; delete it and run the same command again")
    return content
