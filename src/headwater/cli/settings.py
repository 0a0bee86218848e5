"""Settings as they are typed, checked by the names of their options."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.errors import InputError

if TYPE_CHECKING:
    from headwater.experiments.tasks.task import Task
    from headwater.experiments.training_run import Setup
    from headwater.experiments.tuning import Tuning

MOST_SEEDS = 10_000
MOST_STEPS = 1_000_000
MOST_ROUNDS = 1_000_000_000


def make_setup(
    task: Task,
    historical: float,
    rounds: int | None,
    local_steps: int | None,
    batch_size: int | None,
) -> Setup:
    """What all runs share; what is not told is the task's own."""
    from headwater.experiments.training_run import Setup

    usual = task.defaults
    setup = Setup(
        historical,
        usual.rounds if rounds is None else rounds,
        usual.local_steps if local_steps is None else local_steps,
        usual.batch_size if batch_size is None else batch_size or None,
    )
    if not 0 < historical < 1:
        raise InputError(f"--historical: a fraction between 0 and 1; got {historical:g}")
    check_number("--rounds", setup.rounds, MOST_ROUNDS)
    check_number("--local-steps", setup.local_steps, MOST_STEPS)
    if batch_size is not None and batch_size < 0:
        raise InputError(f"--batch-size: at least 1, or 0 for the whole memory; got {batch_size}")
    return setup


def make_tuning(
    rates: str,
    option: str,
    usual: Sequence[float],
    sizes: tuple[int | None, int | None],
    setup: Setup,
    seeds: int,
) -> Tuning:
    """How the learning rate is chosen: ``sizes`` are the rounds and seeds of the tuning runs."""
    from headwater.experiments.tuning import Tuning

    check_number("--seeds", seeds, MOST_SEEDS)
    grid = rates.strip().lower() == "grid"
    chosen = tuple(usual) if grid else _parse_rates(rates, option)
    # a single rate is not tuned, whatever the number of seeds
    all_seeds = seeds if len(chosen) > 1 else 1
    rounds = setup.rounds if sizes[0] is None else sizes[0]
    tuning = Tuning(chosen, rounds, all_seeds if sizes[1] is None else sizes[1], extend=grid)
    if tuning.rounds < 1 or not 1 <= tuning.seeds <= seeds:
        raise InputError(
            f"--tune-rounds: at least 1, --tune-seeds: from 1 to {seeds}; got {tuning.rounds}, "
            f"{tuning.seeds}"
        )
    return tuning


def check_number(option: str, value: int, most: int) -> None:
    """Refuse what is below 1 or beyond all reason."""
    if not 1 <= value <= most:
        raise InputError(f"{option}: from 1 to {most:,}; got {value}")


def as_typed() -> str:
    """The command line of this process."""
    return shlex.join(["headwater", *sys.argv[1:]])


def _parse_rates(text: str, option: str) -> tuple[float, ...]:
    try:
        rates = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"{option}: a number, several with commas, or 'grid'; got {text!r}"
        ) from None
    if not all(0 < rate < float("inf") for rate in rates):
        raise InputError(f"{option}: numbers above 0; got {text!r}")
    return tuple(dict.fromkeys(rates))
