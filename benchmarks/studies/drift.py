"""``python -m benchmarks.studies.drift activity``: streams that change, on a real task.

Strategies learn from streams whose labels change in the middle of the run: at once, gradually, or
back and forth (:mod:`headwater.experiments.tasks.drift`), and from the same streams left as they
are. Every sample is tested as it arrives, before it is learned from. All runs of a task have one
learning rate, chosen without a change, on the streams that end before the validation part, by the
mean over strategies. Finished runs are kept in ``docs/results/drift/TASK.jsonl``, so that a study
that was stopped goes on; ``python -m benchmarks.studies.drift_card`` writes the card.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import headwater as hw
from headwater.experiments.run_log import RunLog
from headwater.experiments.tasks.drift import Course, Drifting
from headwater.experiments.tasks.find import find_task
from headwater.experiments.tasks.task import Task
from headwater.learning.algorithm import Record
from headwater.learning.federation import Federation

PLACE = Path(__file__).parents[2] / "docs" / "results" / "drift"
HISTORICAL = 0.2
Change = Course | Literal["none"]
COURSES: tuple[Change, ...] = ("none", *get_args(Course))
STRATEGIES: Mapping[str, hw.Strategy] = {
    "uniform": hw.Uniform(),
    "historical": hw.Historical(),
    "remembered": hw.Remembered(),
    "memory": hw.ByMemory(),
    "fading": hw.Fading(half_life=10),
    "forgetting": hw.Forgetting(hw.ByMemory()),
}
RATES = {"activity": (0.01, 0.03, 0.1, 0.3, 1.0), "air": (0.01, 0.03, 0.1)}


@dataclass(frozen=True)
class Plan:
    """One run of the study."""

    course: Change
    strategy: str
    seed: int
    rate: float
    tuning: bool = False


def changing(task: Task, course: Change) -> Task:
    return task if course == "none" else Drifting(task, course=course)


def learn(task: Task, plan: Plan) -> dict[str, Any]:
    """Run it; what came out, with one prequential score per round."""
    usual, subject = task.defaults, changing(task, plan.course)
    split = subject.split(HISTORICAL, usual.rounds, plan.seed)
    federation: Federation = split.tuning if plan.tuning else split.final
    run = hw.simulate(
        subject.model(plan.seed),
        federation,
        STRATEGIES[plan.strategy],
        usual.rounds,
        usual.local_steps,
        usual.batch_size,
        plan.rate,
        plan.seed,
        loss=usual.loss,
        prequential=True,
        workers=0,
        test_every=usual.rounds,
    )
    metric = next(iter(run.history[-1].metrics))
    return {
        **asdict(plan),
        "metric": metric,
        "test": run.history[-1].metrics[metric],
        "prequential": [_arrivals(record, metric) for record in run.history],
        "alarms": list(getattr(run.strategy, "alarms", ())),
        "historical_share": run.ledger.historical_share,
    }


def _arrivals(record: Record, metric: str) -> tuple[int, float]:
    """How many samples arrived in a round, and their mean score."""
    return record.arrived, round(record.prequential.get(metric, 0.0), 5)


def score(run: Mapping[str, Any], first: int, last: int) -> float:
    """Mean score of what arrives in rounds first … last, each sample counting the same."""
    some = run["prequential"][first - 1 : last]
    return sum(n * value for n, value in some) / sum(n for n, _ in some)


def best_rate(log: RunLog, task: Task, name: str) -> float:
    """The rate with the best mean over strategies, without a change, on the tuning streams."""
    means = {}
    for rate in RATES[name]:
        plans = [Plan("none", strategy, 0, rate, tuning=True) for strategy in STRATEGIES]
        runs = list(finished(log, task, plans))
        means[rate] = sum(score(run, 1, task.defaults.rounds) for run in runs) / len(runs)
    higher = runs[0]["metric"] == "accuracy"
    return (max if higher else min)(means, key=lambda rate: means[rate])


def finished(log: RunLog, task: Task, plans: list[Plan]) -> Iterator[dict[str, Any]]:
    """The outcome of every plan; those that are stored are not run again."""
    there = {Plan(*(line[name] for name in asdict(plans[0]))): line for line in log.read("run")}
    for plan in plans:
        if plan not in there:
            there[plan] = learn(task, plan)
            log.append("run", there[plan])
            print(plan, f"{there[plan]['test']:.3f}", flush=True)
        yield there[plan]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=list(RATES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data-dir", type=Path)
    given = parser.parse_args()
    task, log = find_task(given.task, given.data_dir), RunLog(PLACE / f"{given.task}.jsonl")
    rate = best_rate(log, task, given.task)
    plans = [
        Plan(course, strategy, seed, rate)
        for seed in range(given.seeds)
        for course in COURSES
        for strategy in STRATEGIES
    ]
    for _ in finished(log, task, plans):
        pass


if __name__ == "__main__":
    main()
