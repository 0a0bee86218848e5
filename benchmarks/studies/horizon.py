"""``python -m benchmarks.studies.horizon``: for how long do the tasks' models remember?

The measured horizon τ as a part of the run, for the settings of the tables: at the start, after
pilots of a twentieth and a fifth of the rounds, and after a twentieth at rates a half-decade
around. It takes minutes and needs the data sets (``HEADWATER_DATA``); tasks whose
data are missing are left out with the reason.
"""

import argparse
from dataclasses import dataclass

import torch

from benchmarks.harness import machine
from headwater.errors import InputError
from headwater.experiments.tasks.find import find_task
from headwater.learning.estimation.horizon import measure_horizon


@dataclass(frozen=True)
class Setting:
    """One table: its task, fraction, learning rate, rounds, and how many samples are looked at."""

    task: str
    historical: float
    rate: float
    samples: int
    rounds: int | None = None


SETTINGS = (
    Setting("synthetic", 0.05, 0.316, 200),
    Setting("synthetic", 0.2, 0.1, 200),
    Setting("synthetic", 0.5, 0.1, 200),
    Setting("femnist", 0.05, 0.1, 512),
    Setting("femnist", 0.2, 0.1, 512),
    Setting("cifar10", 0.2, 0.1, 256),
    Setting("shakespeare", 0.05, 0.3, 128, rounds=1600),
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
        batch_size=task.defaults.batch_size,
        pilot_part=pilot,
        samples=setting.samples,
        probes=2,
    )
    return f"{found.value / rounds:.2f} ± {found.error / rounds:.2f}"


def main() -> None:
    """Measure and print."""
    about = argparse.ArgumentParser(
        prog="python -m benchmarks.studies.horizon", description=__doc__
    )
    about.parse_args()
    torch.set_num_threads(1)
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
