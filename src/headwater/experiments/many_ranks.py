"""Training runs one after the other, each spread over the processes that torchrun has started.

The first rank leads: it decides what is run, reads and writes the folder and speaks to the user.
The others follow: they are told each run, do their part of its clients, and know nothing of the
folder, which they need not even see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from headwater.experiments.many_cores import Progress, Watch
from headwater.experiments.training_run import TrainingRun
from headwater.learning import torchrun
from headwater.learning.algorithm import DivergedError

T = TypeVar("T")


@contextmanager
def leading() -> Iterator[None]:
    """What the first rank does in here the others follow; afterwards they are let go."""
    try:
        yield
    finally:
        if torchrun.ranks() > 1:
            with suppress(RuntimeError):  # if they are gone already, that is what is raised
                _tell(None)


def follow(assist: Callable[[TrainingRun], object]) -> None:
    """Do a part of every run that the first rank begins, until it says that it was the last."""
    while (run := _tell(None)) is not None:
        with suppress(DivergedError):  # the first rank has met it, too, and knows what it means
            assist(run)


def each_over_ranks(
    work: Callable[[int, Progress], T], runs: Sequence[TrainingRun], watch: Watch | None = None
) -> list[T]:
    """The answers of all runs; for the first rank.

    Args:
        work: What the first rank does for a run.
        runs: In this order.
        watch: Called after every round, and with every answer.
    """
    rounds = [0] * len(runs)
    answers: list[T] = []

    def progress(place: int, done: int) -> None:
        rounds[place] = done
        if watch:
            watch(rounds, [])

    for place, run in enumerate(runs):
        _tell(run)
        answers.append(work(place, lambda done, place=place: progress(place, done)))  # type: ignore[misc]
        if watch:
            watch(rounds, [(place, answers[-1])])
    return answers


def _tell(run: TrainingRun | None) -> TrainingRun | None:
    """Everybody calls this; what the first rank gives is what all get."""
    return torchrun.from_first(lambda: run)
