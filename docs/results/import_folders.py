"""Bring results that lie in one folder per run into one ``runs.jsonl`` per table.

    python docs/results/import_folders.py FROM TO [--data-dir DATA]

FROM has ``cells/<data set>-<percent>/`` with settings, index, estimates and a folder for each run;
TO gets, or already has, ``<data set>-<percent>/runs.jsonl``. What is there already stays; it may be
done as often as new runs have come. With the data at hand the runs get the identity that the same
command would give them now, so that it goes on with them; without, they only stand in the tables.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from headwater.experiments.experiment import Experiment
from headwater.experiments.paper.grid import table_file
from headwater.experiments.paper.lines import entrant
from headwater.experiments.run_folder import settle
from headwater.experiments.run_log import RunLog
from headwater.experiments.table import Contents, DataCounts, Planned
from headwater.experiments.tasks import TASKS
from headwater.experiments.tasks.find import find_task
from headwater.experiments.training_run import CurvePoint, Outcome, Setup, TrainingRun
from headwater.experiments.tuning import Tuning
from headwater.ledger.holdings import Holdings
from headwater.ledger.ledger import Ledger
from headwater.ledger.orders import LocalWork
from headwater.ledger.registry import named


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--data-dir", type=Path)
    asked = parser.parse_args()
    for folder in sorted((asked.source / "cells").iterdir()):
        print(folder.name, *bring(folder, asked.target, asked.data_dir))


def bring(folder: Path, target: Path, data_dir: Path | None) -> tuple[str, ...]:
    """One table; says what was new."""
    settings = read(folder / "settings.json")
    dataset = settings.pop("task")
    setup = Setup(**settings)
    log = RunLog(table_file(target, dataset, setup.historical))
    fraction_of = TASKS[dataset].fraction_of
    settle(log, {"task": dataset, **settings, "fraction_of": fraction_of})
    index_file = folder / "index.json"
    index = read(index_file) if index_file.exists() else None
    identify = identifier(folder, dataset, setup, index, data_dir, log)
    there = {line["id"] for line in log.read("run")}
    names: dict[str, str] = {}
    for name, run, outcome in runs_in(folder, setup):
        names[name] = identify(run, outcome)
        if names[name] not in there:
            about = {
                "id": names[name],
                "label": run.label,
                "strategy": repr(run.strategy),
                "seed": run.seed,
                "learning_rate": run.learning_rate,
                "rounds": run.rounds,
                "tuning": run.tuning,
                "data": identify.data,
            }
            log.append("run", {**about, **outcome.as_json()})
    new_estimates = estimates(folder, log, identify.data)
    if index is not None:
        new, before = contents(index, names, identify), Contents.load(log)
        if before is not None and before.tuning != new.tuning:
            print(f"{folder.name}: tuned otherwise; its runs are there, the table's lines stay")
        else:
            new.added_to(before).save(log)
    return f"{len(set(names.values()) - there)} runs,", f"{new_estimates} estimates"


def read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text())


def runs_in(folder: Path, setup: Setup) -> Iterator[tuple[str, TrainingRun, Outcome]]:
    """All finished runs: their old name, what they are, what came out."""
    for file in sorted(folder.glob("**/result.json")):
        label, seed, kind = file.relative_to(folder).parts[-4:-1]
        tuning, rate = kind.startswith("tune-"), float(kind.split("-", 1)[1])
        rounds = setup.rounds
        if tuning:
            parent = file.parents[3] / "settings.json"
            rounds = read(parent)["rounds"]
        number = int(seed.removeprefix("seed-"))
        run = TrainingRun(label, named(label), number, rate, rounds, tuning)
        curve_file = file.with_name("rounds.jsonl")
        lines = curve_file.read_text().splitlines() if curve_file.exists() else []
        tested = [json.loads(line) for line in lines]
        curve = tuple(CurvePoint(r["round"], r["accuracy"], r["loss"]) for r in tested)
        name = file.parent.relative_to(folder).as_posix()
        yield name, run, Outcome.of_json({**read(file), "curve": curve})


class identifier:
    """Gives runs their identity: today's if the data are there and the same, else their own."""

    def __init__(
        self,
        folder: Path,
        dataset: str,
        setup: Setup,
        index: dict[str, Any] | None,
        data_dir: Path | None,
        log: RunLog,
    ) -> None:
        self.table, self.data, self.experiment = folder.name, None, None
        if data_dir is None and dataset != "synthetic":
            return
        experiment = Experiment(find_task(dataset, data_dir), setup, folder, log)
        final = experiment.task.split(setup.historical, setup.rounds, 0).final
        if index is None or index["data"]["samples"] == int(final.train.counts.sum()):
            self.experiment, self.data = experiment, experiment.shared["data"]

    def __call__(self, run: TrainingRun, outcome: Outcome) -> str:
        if self.experiment and not run.tuning and len(outcome.curve) == self._tests(run):
            holdings, work = self._holdings(run.seed)
            who = entrant(run.strategy, "", replace(holdings, drawing=work))
            ledger = Ledger.weigh(replace(holdings, drawing=work), who.strategy)
            # a strategy may have learned to choose otherwise since
            if abs(ledger.historical_share - outcome.historical_share) < 1e-9:
                return self.experiment.identity(replace(run, weights=who.weights))
        return self.of(self.table, run)

    def _holdings(self, seed: int) -> tuple[Holdings, LocalWork]:
        setup = self.experiment.setup
        final = self.experiment.task.split(setup.historical, setup.rounds, seed).final
        work = LocalWork(setup.local_steps, setup.batch_size, seed=seed)
        return final.holdings(setup.rounds, seed), work

    def of(self, table: str, run: TrainingRun) -> str:
        text = f"{table} {run.label} {run.seed} {run.learning_rate} {run.rounds} {run.tuning}"
        return "imported-" + sha256(text.encode()).hexdigest()[:8]

    def _tests(self, run: TrainingRun) -> int:
        every = max(1, run.rounds // self.experiment.task.defaults.tests)
        return len({*range(every, run.rounds + 1, every), run.rounds})

    def unfinished(self, name: str, setup_rounds: int) -> str:
        """The identity of a run that is planned and has not been done."""
        label, seed, kind = name.split("/")
        rate = float(kind.split("-", 1)[1])
        run = TrainingRun(label, named(label), int(seed[5:]), rate, setup_rounds)
        return self.of(self.table, run)


def estimates(folder: Path, log: RunLog, data: object) -> int:
    known = {line["seed"] for line in log.read("estimate")}
    new = 0
    for file in sorted((folder / "estimates").glob("seed-*.json")):
        seed = int(file.stem.removeprefix("seed-"))
        if seed not in known:
            about = {"seed": seed, "data": data, "with_measurement": True}
            log.append("estimate", {**about, **read(file)})
            new += 1
    return new


def contents(index: dict[str, Any], names: dict[str, str], identify: identifier) -> Contents:
    tuning = Tuning(**{**index["tuning"], "rates": tuple(index["tuning"]["rates"])})
    rounds = read_rounds(identify)
    lines = {
        line: Planned(
            index["lines"][line],
            index["rates"][line],
            {int(s): names.get(n) or identify.unfinished(n, rounds) for s, n in seeds.items()},
        )
        for line, seeds in index["cells"].items()
    }
    tried = tuning.rates if len(tuning.rates) > 1 else ()
    return Contents(tuning, tried, DataCounts(**index["data"]), index["command"], lines)


def read_rounds(identify: identifier) -> int:
    return identify.experiment.setup.rounds if identify.experiment else 0


if __name__ == "__main__":
    main()
