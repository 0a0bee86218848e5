"""The learning tasks, and how to bring your own (:class:`headwater.tasks.task.Task`)."""

from __future__ import annotations

from pathlib import Path

from headwater.errors import InputError
from headwater.tasks.synthetic import Synthetic
from headwater.tasks.task import Task

TASKS = ("synthetic",)


def task(name: str, data_dir: Path | None = None) -> Task:  # noqa: ARG001 (the embedded task needs no folder)
    """A task by its name on the command line."""
    if name not in TASKS:
        raise InputError(f"unknown task {name!r}; there is: {', '.join(TASKS)}")
    return Synthetic()
