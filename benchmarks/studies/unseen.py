"""``python -m benchmarks.studies.unseen``: shares that were written down before anybody looked.

`Remembered` was found with the paper's tables in view. Here it meets runs of other lengths, local
steps, batches and rates, and real sensors' streams. ``predict`` chooses the learning rate by
validation data, measures what the rule measures before round 1, and writes the share that it will
choose; commit that. ``run`` then learns with every share of the grid and tests. ``again`` measures
once more, with the code of today, and leaves what was predicted as it is. ``show`` writes the
page. Everything finished is stored at once and never done twice.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import machine
from headwater.errors import InputError
from headwater.experiments.comparison import Comparison, Entrant
from headwater.experiments.experiment import Experiment
from headwater.experiments.measure import Measure
from headwater.experiments.over_seeds import Line
from headwater.experiments.run_log import RunLog
from headwater.experiments.table import Table
from headwater.experiments.tasks.find import find_task
from headwater.experiments.training_run import Setup
from headwater.experiments.tuning import Tuning
from headwater.files import replace
from headwater.learning.estimation import resolve
from headwater.ledger.ledger import Ledger
from headwater.ledger.orders import LocalWork
from headwater.ledger.remembered import Remembered
from headwater.ledger.strategies import Share, Strategy, Uniform
from headwater.report.progress import RunProgress

GRID = (0.0, 0.2, 0.5, 0.8, 1.0)
LINES: dict[str, Strategy] = {
    "uniform": Uniform(),
    "remembered": Remembered(),
    "quarter": Remembered(0.25),
    **{f"share-{share:g}": Share(share) for share in GRID},
}


@dataclass(frozen=True)
class Case:
    """One table that nobody has looked at.

    Attributes:
        task: By its name.
        historical: The fraction that is there before round 1.
        rounds: T.
        local_steps: E.
        batch_size: K; None stands for the whole memory.
        rates: Learning rates to choose from, by validation data.
        seeds: Repetitions.
    """

    task: str
    historical: float
    rounds: int
    local_steps: int
    batch_size: int | None
    rates: tuple[float, ...]
    seeds: int

    @property
    def name(self) -> str:
        """What its folder is called."""
        batch = "all" if self.batch_size is None else self.batch_size
        share = f"{100 * self.historical:g}"
        return f"{self.task}-{share}-T{self.rounds}-E{self.local_steps}-K{batch}"

    def experiment(self, results: Path, work: Path) -> Experiment:
        """Its runs."""
        setup = Setup(self.historical, self.rounds, self.local_steps, self.batch_size)
        log = RunLog(results / self.name / "runs.jsonl")
        return Experiment(find_task(self.task), setup, work / self.name, log)


HALF_DECADES = (0.01, 0.0316228, 0.1, 0.316228)
CASES = (
    Case("synthetic", 0.2, 160, 1, None, HALF_DECADES, 20),
    Case("synthetic", 0.5, 40, 20, None, HALF_DECADES, 20),
    Case("synthetic", 0.2, 200, 1, 2, HALF_DECADES, 20),
    Case("air", 0.25, 306, 1, 64, HALF_DECADES, 5),
    Case("air", 0.5, 102, 5, 16, HALF_DECADES, 5),
    Case("activity", 0.2, 150, 5, None, HALF_DECADES, 5),
    Case("activity", 0.5, 300, 1, 8, HALF_DECADES, 5),
    Case("femnist", 0.2, 200, 1, 16, (0.0316228, 0.1, 0.316228), 3),
    Case("femnist", 0.05, 60, 10, 8, (0.0316228, 0.1, 0.316228), 3),
    Case("cifar100", 0.2, 1600, 1, 8, (0.1,), 1),
)
OF_THE_PAPER = {"cifar100-20-T1600-E1-K8": "cifar100-20"}
"""Cases whose runs are those of a table of the paper; ``headwater paper table`` learns them."""
ALSO_CALLED = {"fresh": "share-0", "historical": "share-1"}


def predict(case: Case, results: Path, work: Path) -> dict[str, object]:
    """Choose the rate on validation data, and say which shares the rule will give."""
    experiment = case.experiment(results, work)
    experiment.open()
    # Synthetic has 40 validation samples: one seed of them would choose by chance.
    seeds = max(1, case.seeds // 4)
    tuning = Tuning(case.rates, case.rounds, seeds, extend=len(case.rates) > 1)
    comparison = Comparison(experiment, [_everybody()] * seeds, tuning)
    rate, tried = comparison.tune(RunProgress, processes=1)
    return {**asdict(case), "rate": rate, "tried": tried, **measurements(case, experiment, rate)}


def measurements(case: Case, experiment: Experiment, rate: float) -> dict[str, float]:
    """What is measured before round 1, and the shares that follow: means over seeds."""
    seen = [_seed(experiment, seed, rate) for seed in range(min(case.seeds, 3))]
    return {key: float(np.mean([one[key] for one in seen])) for key in seen[0]}


def _seed(experiment: Experiment, seed: int, rate: float) -> dict[str, float]:
    """What is measured before round 1 with one seed."""
    task, setup = experiment.task, experiment.setup
    final = task.split(setup.historical, setup.rounds, seed).final
    work = LocalWork(setup.local_steps, setup.batch_size, seed=seed)
    holdings = changed(final.holdings(setup.rounds, seed), drawing=work)
    loss = task.defaults.loss
    found = resolve(Remembered(), task.model(seed), final, holdings, loss, seed, rate)
    assert isinstance(found, Remembered)
    assert found.heterogeneity is not None
    share = {
        name: float(Ledger.weigh(holdings, rule).historical_share)
        for name, rule in (
            ("uniform", Uniform()),
            ("remembered", found),
            ("quarter", Remembered(0.25, found.heterogeneity)),
        )
    }
    horizon = found.rounds(setup.rounds) / setup.rounds
    return {"rho": found.heterogeneity, "horizon": horizon, **share}


def measured(
    step: str, case: Case, known: dict[str, Any] | None, results: Path, work: Path
) -> dict[str, Any] | None:
    """What is known of a case after this step; None: there is nothing to be measured."""
    if step == "predict" and known is None:
        return predict(case, results, work)
    if step == "again" and known is not None:
        today = measurements(case, case.experiment(results, work), float(known["rate"]))
        return {**known, "today": today}
    return None


def run(case: Case, predicted: dict[str, object], results: Path, work: Path) -> None:
    """Learn with all lines at the rate that the prediction was made for."""
    experiment = case.experiment(results, work)
    experiment.open()
    rate = float(str(predicted["rate"]))
    tuning = Tuning((rate,), case.rounds, seeds=1)
    Comparison(experiment, [_everybody()] * case.seeds, tuning).run(RunProgress, processes=1)


def _everybody() -> dict[str, Entrant]:
    """Who takes part; how the horizon is found is a part of the rule's name."""
    found = {name: Entrant(name, strategy) for name, strategy in LINES.items()}
    measured = changed(found["remembered"], weights="horizon measured after a pilot")
    return {**found, "remembered": measured}


def page(predictions: Sequence[dict[str, object]], results: Path) -> str:
    """What was predicted beside what came out."""
    rows = [_row(predicted, results) for predicted in predictions]
    head = (
        "| table | η | ρ | τ/T | predicted p_hist | at the start | today | best of grid | "
        "Remembered behind it | Quarter | Uniform |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    return "\n".join([_WORDS, "", head, *rows, ""])


_WORDS = """# Tables nobody had looked at

`Remembered` and its quarter were found with the paper's tables in view. These runs have other
lengths, local steps, batches and rates, or are sensors' streams. The learning rate is one for all
lines, chosen by validation data, and every predicted share was computed and committed before the
runs. There are two: with the horizon measured *at the start*, committed before any of these tables
was learned, and *predicted* with the horizon after a pilot, which came later; then the grids of
synthetic, air and activity had been seen, those of FEMNIST and CIFAR-100 not; FEMNIST at 20 % has
the second only. Both were measured with errors that were found later: noise and curvature of the
same samples, too few steps, sums in single precision. *Today* is the share that is measured since
they are mended, by which nothing in this table was learned. *Behind* is the loss against the best
share of the grid by test score, which no rule without a grid can know: percentage points of
accuracy, or for air thousandths of the mean absolute error; with the 95 % interval over seeds.
Negative: better than every share of the grid. Repeat it with
`python -m benchmarks.studies.unseen predict`, `run` and `show`."""


def _row(predicted: dict[str, Any], results: Path) -> str:
    said = {key: float(str(predicted[key])) for key in ("rate", "rho", "horizon", "remembered")}
    name = Case(**{k: predicted[k] for k in Case.__dataclass_fields__}).name
    before = predicted.get("at_start")
    at_start = f"{before['remembered']:.2f}" if isinstance(before, dict) else ""
    today = f"{predicted['today']['remembered']:.2f}" if "today" in predicted else ""
    start = (
        f"| {name} | {said['rate']:.3g} | {said['rho']:.2g} | {said['horizon']:.2f} "
        f"| {said['remembered']:.2f} | {at_start} | {today} |"
    )
    lines = _lines(name, results)
    shares = {s: lines.get(f"share-{s:g}") for s in GRID}
    grid = {s: line for s, line in shares.items() if line is not None}
    if len(grid) < len(GRID):
        return f"{start} not run yet | | | |"
    measure = Measure.named(lines["uniform"].measure)
    sign = 1 if measure.higher else -1
    best = max(grid, key=lambda s: sign * grid[s].late_accuracy.mean)
    line = grid[best]
    cells = [_behind(line, lines.get(rule), sign) for rule in ("remembered", "quarter", "uniform")]
    score = measure.show(line.late_accuracy)
    return f"{start} {score} at {best:g} | {' | '.join(cells)} |"


def _lines(name: str, results: Path) -> dict[str, Line]:
    """Who has results in a case, as the lines are called here."""
    folder = results.parent / OF_THE_PAPER[name] if name in OF_THE_PAPER else results / name
    table = Table.load(folder / "runs.jsonl")
    lines = {} if table is None else table.lines
    # A table of the paper writes "Share 0.5" and "Fresh".
    names = {name: name.lower().replace(" ", "-") for name in lines}
    return {ALSO_CALLED.get(names[k], names[k]): line for k, line in lines.items() if line.outcomes}


def _behind(best: Line, rule: Line | None, sign: int) -> str:
    gap = None if rule is None else best.minus(rule)
    if gap is None:
        return "–"
    scale = 100 if sign > 0 else 1000
    spread = "" if gap.ci95 is None else f" ± {scale * gap.ci95:.1f}"
    return f"{scale * sign * gap.mean:+.1f}{spread}"


def main() -> None:
    """Predict, run or show."""
    about = argparse.ArgumentParser(prog="python -m benchmarks.studies.unseen", description=__doc__)
    about.add_argument("step", choices=("predict", "run", "again", "show"))
    about.add_argument("--only", default="", help="cases whose names begin so")
    about.add_argument("--results", type=Path, default=Path("docs/results/unseen"))
    about.add_argument("--work", type=Path, default=Path("runs/unseen"))
    given = about.parse_args()
    file = given.results / "predictions.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    for case in (case for case in CASES if case.name.startswith(given.only)):
        try:
            entry = measured(given.step, case, known.get(case.name), given.results, given.work)
        except InputError as error:
            print(f"{case.name}: {error}")
            continue
        if entry is not None:
            known[case.name] = entry
            replace(file, json.dumps(known, indent=1).encode())
            print(case.name, entry, flush=True)
        if given.step == "run" and case.name in known and case.name not in OF_THE_PAPER:
            run(case, known[case.name], given.results, given.work)
    if given.step == "show":
        text = page(list(known.values()), given.results)
        machine_words = machine.describe("python -m benchmarks.studies.unseen").words()
        replace(given.results / "README.md", f"{text}\nWritten by {machine_words}.\n".encode())


if __name__ == "__main__":
    main()
