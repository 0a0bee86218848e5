"""``python -m benchmarks.studies.horizon``: for how long do the tasks' models remember?

The measured horizon τ as a part of the run, for the settings of the tables: at the start, after
pilots of a twentieth and a fifth of the rounds, and after a twentieth at rates a half-decade
around. It takes minutes and needs the data sets (``HEADWATER_DATA``); tasks whose
data are missing are left out with the reason. ``--few`` asks instead what few samples tell: on the
synthetic task, beside what 11,000 samples of the same clients say at the same model.
"""

import argparse
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.harness import machine
from headwater.errors import InputError
from headwater.experiments.tasks.find import find_task
from headwater.experiments.tasks.synthetic import Synthetic
from headwater.learning.estimation.curvature import Curvature, noise
from headwater.learning.estimation.horizon import measure_horizon, settle
from headwater.learning.estimation.lanczos import Lanczos
from headwater.learning.estimation.pilot import pilot
from headwater.learning.problem import Problem
from headwater.ledger.holdings import Counts
from headwater.ledger.orders import LocalWork


@dataclass(frozen=True)
class Setting:
    """One table: its task, fraction, learning rate, and what differs from the task's defaults."""

    task: str
    historical: float
    rate: float
    rounds: int | None = None
    batch_size: int | None = None


SETTINGS = (
    Setting("synthetic", 0.05, 0.316),
    Setting("synthetic", 0.2, 0.1),
    Setting("synthetic", 0.5, 0.1),
    Setting("femnist", 0.05, 0.1),
    Setting("femnist", 0.2, 0.1),
    Setting("cifar10", 0.2, 0.1),
    Setting("shakespeare", 0.05, 0.3, rounds=800, batch_size=4),
)


def row(setting: Setting) -> str:
    """One line of the table: after three pilots at its own rate, and after one at other rates."""
    at_rate = [measured(setting, 1.0, part) for part in (0.0, 0.05, 0.2)]
    beside = [measured(setting, factor, 0.05) for factor in (10**-0.5, 10**0.5)]
    task = find_task(setting.task)
    rounds = setting.rounds or task.defaults.rounds
    name = f"{setting.task}, {100 * setting.historical:g} %"
    told = f"| {name} | {rounds} | {task.defaults.local_steps} | {setting.rate:g} |"
    return f"{told} {' | '.join([*at_rate, *beside])} |"


def measured(setting: Setting, factor: float, pilot: float) -> str:
    """τ as a part of the run, at the table's rate times ``factor``."""
    task = find_task(setting.task)
    rounds = setting.rounds or task.defaults.rounds
    found = measure_horizon(
        task.model(0),
        task.split(setting.historical, rounds, 0).final,
        setting.rate * factor,
        rounds,
        task.defaults.local_steps,
        batch_size=setting.batch_size or task.defaults.batch_size,
        pilot_part=pilot,
    )
    return f"{found.value / rounds:.2f} ± {found.error / rounds:.2f}"


def few(historical: float, rate: float, seeds: int = 20) -> str:
    """τ/T of the synthetic task by many samples, by few twice, and by their halves."""
    found = np.array([_few(historical, rate, seed) for seed in range(seeds)])
    cells = [f"{np.mean(of_one):.2f} ± {np.std(of_one):.2f}" for of_one in found[:, 1:].T]
    return f"| synthetic, {100 * historical:g} % | {found[0, 0]:g} | {' | '.join(cells)} |"


def _few(historical: float, rate: float, seed: int) -> list[float]:
    """How many are held after the pilot; τ/T by many, by these twice, by their halves."""
    task, rounds, steps = Synthetic(), 40, 5
    streams = task.split(historical, rounds, seed).final
    assert streams.test is not None
    problem = Problem.of(task.model(seed), streams.train)
    holdings = streams.holdings(rounds, seed)
    parameters = pilot(problem, holdings, LocalWork(steps, None, seed=seed), rate, 2)
    many = Problem(
        problem.model, *(torch.as_tensor(part) for part in (streams.test.x, streams.test.y))
    )
    held = np.flatnonzero(holdings.held(2))
    order = np.random.default_rng(seed).permutation(held)
    half = len(order) // 2

    def part(where: Problem, noisy: Counts, curved: Counts) -> float:
        start = noise(where, parameters, noisy, seed, 0)
        lanczos = Lanczos(Curvature(where, parameters, curved), start)
        return settle(lanczos, rate * steps * rounds, steps=60).sums.part

    everything = np.arange(len(many.x))
    return [
        len(held),
        part(many, everything[::2], everything[1::2]),
        part(problem, held, held),
        part(problem, order[half:], order[:half]),
    ]


def main() -> None:
    """Measure and print."""
    about = argparse.ArgumentParser(
        prog="python -m benchmarks.studies.horizon", description=__doc__
    )
    about.add_argument("--few", action="store_true", help="what few samples tell")
    given = about.parse_args()
    torch.set_num_threads(1)
    if given.few:
        print("| τ/T | samples held | by 11,000 samples | by these, twice | by their halves |")
        print("|---|--:|--:|--:|--:|")
        for setting in SETTINGS[:3]:
            print(few(setting.historical, setting.rate), flush=True)
        return
    print("| table | T | E | η | at the start | after T/20 | after T/5 | η/√10 | η·√10 |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for setting in SETTINGS:
        try:
            print(row(setting), flush=True)
        except InputError as error:
            print(f"| {setting.task} | {error} |")
    print(f"Measured by {machine.describe('python -m benchmarks.studies.horizon').words()}.")


if __name__ == "__main__":
    main()
