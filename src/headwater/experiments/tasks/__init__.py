"""The learning tasks, and how to bring your own
(:class:`headwater.experiments.tasks.task.Task`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headwater.errors import InputError
from headwater.experiments.tasks.cifar import Cifar10Task, Cifar100Task
from headwater.experiments.tasks.femnist import FemnistTask
from headwater.experiments.tasks.shakespeare import ShakespeareTask
from headwater.experiments.tasks.synthetic import Synthetic
from headwater.experiments.tasks.task import Task

_ON_DATA: tuple[Callable[[Path | None], Task], ...] = (
    Cifar10Task,
    Cifar100Task,
    FemnistTask,
    ShakespeareTask,
)
TASKS = ("synthetic", "cifar10", "cifar100", "femnist", "shakespeare")


def task(name: str, data_dir: Path | None = None) -> Task:
    """A task by its name on the command line.

    Args:
        name: one of ``TASKS``.
        data_dir: where the data sets' folders are; None: the user's cache.
    """
    if name not in TASKS:
        raise InputError(f"unknown task {name!r}; there are: {', '.join(TASKS)}")
    if name == "synthetic":
        return Synthetic()
    return _ON_DATA[TASKS.index(name) - 1](data_dir)
