"""``python -m benchmarks.studies.horizon``: for how long do the tasks' models remember?

The measured horizon τ as a part of the run, for the settings of the tables and for rates a
half-decade around them. It takes minutes and needs the data sets (``HEADWATER_DATA``); tasks whose
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
    Setting("femnist", 0.05, 0.1, 1024),
    Setting("femnist", 0.2, 0.1, 1024),
    Setting("cifar10", 0.2, 0.1, 512),
    Setting("shakespeare", 0.05, 0.3, 256, rounds=1600),
)


def row(setting: Setting) -> str:
    """One line of the table."""
    task = find_task(setting.task)
    rounds = setting.rounds or task.defaults.rounds
    steps = task.defaults.local_steps
    streams = task.split(setting.historical, rounds, 0).final
    cells = []
    for factor in (10**-0.5, 1.0, 10**0.5):
        rate = setting.rate * factor
        looked = {"samples": setting.samples, "probes": 2, "batch_size": task.defaults.batch_size}
        found = measure_horizon(task.model(0), streams, rate, rounds, steps, **looked)
        cells.append(f"{found.value / rounds:.2f} ± {found.error / rounds:.2f}")
    name = f"{setting.task}, {100 * setting.historical:g} %"
    return f"| {name} | {rounds} | {steps} | {setting.rate:g} | {' | '.join(cells)} |"


def main() -> None:
    """Measure and print."""
    about = argparse.ArgumentParser(
        prog="python -m benchmarks.studies.horizon", description=__doc__
    )
    about.parse_args()
    torch.set_num_threads(1)
    print("| table | T | E | η | τ/T at η/√10 | at η | at η·√10 |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for setting in SETTINGS:
        try:
            print(row(setting), flush=True)
        except InputError as error:
            print(f"| {setting.task} | {error} |")
    print(f"Measured by {machine.describe('python -m benchmarks.studies.horizon').words()}.")


if __name__ == "__main__":
    main()
