"""An experiment: training runs on one task with the same settings, each stored when it ends.

Runs know nothing of each other, so they go on as many cores as there are, one thread each: an
experiment that was killed goes on where it was, and neither the number of cores nor the order of
the runs changes a bit of the result.
"""

from __future__ import annotations

import dataclasses
import json
import math
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, fields, is_dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path

import torch

from headwater.experiments.many_cores import Progress, Watch, each_in_a_process
from headwater.experiments.many_ranks import each_over_ranks
from headwater.experiments.measure import Measure
from headwater.experiments.run_folder import settle
from headwater.experiments.run_log import RunLog
from headwater.experiments.tasks.task import Task
from headwater.experiments.time_spent import TimeSpent
from headwater.experiments.training_run import CurvePoint, Outcome, Setup, TrainingRun
from headwater.files import replace, sweep
from headwater.learning import torchrun
from headwater.learning.algorithm import DivergedError, Record
from headwater.learning.evaluation import evaluate
from headwater.learning.federation import Federation
from headwater.learning.identity import digest, versions
from headwater.learning.losses import Loss
from headwater.learning.run import Run
from headwater.learning.simulation import simulate
from headwater.learning.summary import summarise

VIEW = "view.json"
"""The file in a run's folder that has what can be looked at."""


@dataclass(frozen=True)
class Experiment:
    """Runs of a task.

    Attributes:
        task: What is learned.
        setup: What all runs share.
        folder: Of what a run under way needs to go on, and of the models.
        log: Where outcomes are kept.
    """

    task: Task
    setup: Setup
    folder: Path
    log: RunLog

    def open(self) -> None:
        """Take the folder, unless it holds an experiment with other settings."""
        settle(self.log, {**self.settings, "fraction_of": self.task.fraction_of})

    @property
    def settings(self) -> dict[str, object]:
        """Task, fraction, T, E and K."""
        return {"task": self.task.name, **asdict(self.setup)}

    @cached_property
    def shared(self) -> dict[str, object]:
        """What decides all runs alike: settings, every value of the data, and versions."""
        tests, data = self.task.defaults.tests, self._source()
        return {**self.settings, "tests": tests, "data": data, **versions()}

    def identity(self, run: TrainingRun) -> str:
        """The name of a run in the log: the same only if all that decides its outcome is."""
        return run.identity(self.shared)

    def outcomes(self) -> dict[str, Outcome]:
        """All finished runs by their identity."""
        return {line["id"]: Outcome.of_json(line) for line in self.log.read("run")}

    def train_all(
        self,
        runs: Sequence[TrainingRun],
        watch: Watch | None = None,
        processes: int | None = None,
    ) -> dict[str, Outcome]:
        """The outcomes of runs by identity; those that are not finished yet are trained.

        Args:
            runs: The first ones are begun first; equal ones are done once.
            watch: Called several times a second with the rounds done and the runs just finished.
            processes: How many at once; None stands for one per core.
        """
        wanted = {self.identity(run): run for run in runs}
        done = {name: found for name, found in self.outcomes().items() if name in wanted}
        todo = [name for name in wanted if name not in done]
        names = [str(wanted[name]) for name in todo]

        def work(place: int, progress: Progress) -> Outcome:
            return self.train(wanted[todo[place]], progress)

        if torchrun.ranks() > 1:
            found = each_over_ranks(work, [wanted[name] for name in todo], watch)
        else:
            found = each_in_a_process(work, names, watch, processes)
        return {**done, **dict(zip(todo, found, strict=True))}

    def train(self, run: TrainingRun, progress: Progress | None = None) -> Outcome:
        """Learn, or go on learning; store models and outcome."""
        folder = self.working_folder(run)
        sweep(folder)
        spent = TimeSpent(folder / "spent.json")

        def see(record: Record) -> None:
            spent.tick()
            if progress:
                progress(record.round)

        federation = self._federation(run)
        try:
            learned = self._learn(run, federation, folder, see=see)
        except DivergedError as error:
            if not run.tuning:
                raise DivergedError(f"{run}: {error}") from None
            outcome = _diverged(str(error), self.task.defaults.loss, spent)
        else:
            outcome = _outcome(learned, federation, self.task.defaults.loss, spent)
            if not run.tuning:
                _save_models(learned, folder)
                _save_view(learned, folder, run.seed)
        self._store(run, outcome)
        return outcome

    def assist(self, run: TrainingRun) -> None:
        """Do a part of a run that the first of several ranks trains, tests and stores."""
        untested = dataclasses.replace(self._federation(run), test=None)
        # Only the first rank tells, but all must have somebody to tell.
        self._learn(run, untested, see=lambda _: None)

    def working_folder(self, run: TrainingRun) -> Path:
        """Where a run keeps what it needs to go on, and its models."""
        kind = "tuning" if run.tuning else "final"
        name = f"{kind}-{run.learning_rate:.4g}-{self.identity(run)}"
        return self.folder / "work" / run.label / f"seed-{run.seed}" / name

    def _learn(
        self,
        run: TrainingRun,
        federation: Federation,
        folder: Path | None = None,
        *,
        see: Callable[[Record], None],
    ) -> Run:
        return simulate(
            self.task.model(run.seed),
            federation,
            run.strategy,
            run.rounds,
            self.setup.local_steps,
            self.setup.batch_size,
            run.learning_rate,
            run.seed,
            loss=self.task.defaults.loss,
            # A run has a core of its own, unless all of torchrun's ranks work on it.
            workers=0 if torchrun.ranks() == 1 else None,
            test_every=max(1, run.rounds // self.task.defaults.tests),
            checkpoint=folder,
            progress=see,
        )

    def _store(self, run: TrainingRun, outcome: Outcome) -> None:
        """Log the outcome: from then on the run is finished. What only a running one needs goes."""
        about = {
            "id": self.identity(run),
            "label": run.label,
            "strategy": repr(run.strategy),
            "seed": run.seed,
            "learning_rate": run.learning_rate,
            "rounds": run.rounds,
            "tuning": run.tuning,
            "data": self.shared["data"],
        }
        self.log.append("run", {**about, **outcome.as_json()})
        folder = self.working_folder(run)
        if run.tuning:
            shutil.rmtree(folder, ignore_errors=True)
        for name in ("state.npz", "spent.json"):
            (folder / name).unlink(missing_ok=True)

    def _federation(self, run: TrainingRun) -> Federation:
        split = self.task.split(self.setup.historical, run.rounds, run.seed)
        return split.tuning if run.tuning else split.final

    def _source(self) -> str:
        """A name for task, data and model: the first seed's split has every sample of the task."""
        task = self.task
        final = task.split(self.setup.historical, self.setup.rounds, 0).final
        # where the data lie does not matter, only what they are
        known: tuple[Field[object], ...] = fields(task) if is_dataclass(task) else ()
        settings = [getattr(task, f.name) for f in known if f.name != "data_dir"]
        return digest(type(task), settings, final.train, final.test, task.model(0))


def machine() -> str:
    """What a run runs on, in a few words."""
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    cpu = names[0] if names else platform.machine()
    return f"{cpu}, one thread, Python {platform.python_version()}, torch {torch.__version__}"


def _outcome(run: Run, federation: Federation, loss: Loss, spent: TimeSpent) -> Outcome:
    assert federation.test is not None
    name = Measure.of(loss).name
    average = evaluate(run.average, federation.test, loss).mean(name)
    tested = [(r, {"loss": r.loss, **r.metrics}) for r in run.history if r.loss is not None]
    curve = tuple(CurvePoint(r.round, values[name], r.loss) for r, values in tested)
    ledger = run.ledger
    return Outcome(
        curve[-1].score,
        curve[-1].loss,
        average,
        ledger.historical_share,
        ledger.effective_samples,
        ledger.variability,
        sum(record.samples for record in run.history),
        spent.seconds,
        spent.cpu_seconds,
        machine(),
        curve=curve,
        measure=name,
        metrics=_finite(tested[-1][0].metrics),
        worst=_finite(tested[-1][0].worst),
    )


def _finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers as a log takes them."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _diverged(message: str, loss: Loss, spent: TimeSpent) -> Outcome:
    took = spent.seconds, spent.cpu_seconds, machine()
    name = Measure.of(loss).name
    return Outcome(0.0, None, 0.0, 0.0, 0.0, 0.0, 0, *took, diverged=message, measure=name)


def _save_models(run: Run, folder: Path) -> None:
    for name, model in (("model", run.model), ("average", run.average)):
        buffer = BytesIO()
        torch.save(model.state_dict(), buffer)
        replace(folder / f"{name}.pt", buffer.getvalue())


def _save_view(run: Run, folder: Path, seed: int) -> None:
    """What ``headwater report`` shows of a line; the first seed stands for the others."""
    if seed == 0:
        replace(folder / VIEW, json.dumps(summarise(run), allow_nan=False).encode())
