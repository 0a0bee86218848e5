"""From what a user typed to a task: a name of ours, a class of their own, or a table."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from pathlib import Path
from typing import Any

from headwater.errors import InputError
from headwater.experiments.tasks import TASKS
from headwater.experiments.tasks.own_table import OwnTable
from headwater.experiments.tasks.task import Task

_TABLES = (".csv", ".csv.gz", ".parquet")
_NEEDED = ("name", "fraction_of", "defaults", "complete", "split", "model")


def find_task(text: str, data_dir: Path | None = None, **table: Any) -> Task:
    """The task that a text names.

    Args:
        text: A name in :data:`headwater.experiments.tasks.TASKS`; ``module:Class`` of your own,
            found from the current folder or among what is installed; or the path of a table, .csv
            or .parquet.
        data_dir: Where data sets lie; handed to tasks that take a ``data_dir``. None stands for the
            user's cache.
        table: For a table, settings of
            :class:`~headwater.experiments.tasks.own_table.OwnTable`; None stands for the default.

    Returns:
        The task; its data are not loaded yet.

    Example:
        >>> find_task("synthetic").fraction_of
        'samples'
        >>> find_task("headwater.experiments.tasks.synthetic:Synthetic").name
        'synthetic'
    """
    given = {name: value for name, value in table.items() if value is not None}
    if text.lower().endswith(_TABLES):
        return _table(text, given)
    if given and Path(text).is_file():
        raise InputError(f"{text}: tables are {', '.join(_TABLES)}; write it as one of these first")
    for name, value in given.items():
        raise InputError(f"{name}: {value!r} is for tables, not for task {text!r}; leave it out")
    if text in TASKS:
        return _made(load(TASKS[text].place, "task"), data_dir)
    if ":" not in text:
        raise InputError(
            f"unknown task {text!r}; there are: {', '.join(TASKS)}, module:Class of your own, or a "
            "table as .csv or .parquet"
        )
    return _checked(_made(load(text, "task"), data_dir), text)


def _table(path: str, given: dict[str, Any]) -> Task:
    """A table of the user's own; a model is named as module:Class."""
    missing = [name for name in ("client", "time", "label") if name not in given]
    if missing:
        raise InputError(
            f"{path}: client, time and label must be given, the names of its columns; {missing[0]} "
            "is missing"
        )
    if "net" in given:
        given["net"] = load(given["net"], "model")
    return OwnTable(Path(path), **given)


def load(text: str, what: str) -> Any:
    """What ``module:name`` stands for; modules are also looked for in the current folder.

    Example:
        >>> load("math:tau", "number")
        6.283185307179586
        >>> load("math:tea", "number")
        Traceback (most recent call last):
        headwater.errors.InputError: number 'math:tea': module math has no 'tea'
    """
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise InputError(f"{what} {text!r}: name it as module:Class, such as my_models:Net")
    # `headwater` is a script: unlike `python -m`, it does not look in the current folder by itself.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"{what} {text!r}: cannot import {module} ({error}); it must lie in the current "
            "folder or be installed"
        ) from error
    except Exception as error:  # whatever a user's own module raises while it is imported
        why = f"{type(error).__name__}: {error}"
        raise InputError(f"{what} {text!r}: importing {module} fails ({why})") from error
    if not hasattr(found, name):
        raise InputError(f"{what} {text!r}: module {module} has no {name!r}")
    return getattr(found, name)


def _made(found: Any, data_dir: Path | None) -> Any:
    """A class is called, with the data folder if it wants one; a task that is made stays."""
    if not callable(found):
        return found
    if "data_dir" in inspect.signature(found).parameters:
        return found(data_dir=data_dir)
    return found()


def _checked(task: Any, text: str) -> Task:
    # Not looked up on the task itself: `complete` may be a property that loads all data.
    missing = [
        n for n in _NEEDED if not hasattr(type(task), n) and n not in getattr(task, "__dict__", ())
    ]
    if missing:
        raise InputError(
            f"task {text!r}: it has no {', '.join(missing)}; a task needs {', '.join(_NEEDED)} "
            "(see headwater.experiments.tasks.task.Task)"
        )
    return task
