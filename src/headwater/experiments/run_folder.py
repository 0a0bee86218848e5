"""A run folder belongs to one command at a time, and to one set of settings for good."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

from headwater.errors import InputError
from headwater.experiments.run_log import RunLog
from headwater.files import check_folder

_held: set[Path] = set()  # the system lets a process take its own locks again; we do not


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other processes out of a run folder while we work there.

    The lock is one that forked processes do not inherit (POSIX, by process): it is gone the moment
    its holder is, however that ended and whatever became of its workers.
    """
    _make(folder)
    place = folder.resolve()
    file = folder.parent / f".{folder.name}.lock"
    if place in _held:  # looking into the lock's file would let it go: closing it does
        raise InputError(f"{folder}: another run of this process is at work there")
    with open(file, "a+") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise InputError(_taken(folder, file)) from None
        _held.add(place)
        try:
            _sign(lock)
            yield
        finally:
            _held.discard(place)


def settle(log: RunLog, settings: Mapping[str, object]) -> None:
    """Write the settings down, unless the folder holds an experiment with other settings."""
    folder = log.file.parent
    there = log.read("settings")
    if there:
        _compare(folder, there[0], settings)
    elif not log.file.exists() and folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty and holds no run; choose another folder")
    else:
        log.append("settings", settings)


def _compare(folder: Path, theirs: Mapping[str, object], mine: Mapping[str, object]) -> None:
    other = [
        f"{name}: {theirs.get(name)!r} there, {value!r} now"
        for name, value in mine.items()
        if theirs.get(name) != value
    ]
    if other:
        raise InputError(
            f"{folder} holds a run with other settings ({'; '.join(other)}); "
            "choose another folder, or delete that one"
        )


def _make(folder: Path) -> None:
    check_folder("run folder", folder)
    folder.mkdir(parents=True, exist_ok=True)


def _sign(lock: IO[str]) -> None:
    lock.truncate(0)
    json.dump({"process": os.getpid(), "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}"}, lock)
    lock.flush()


def _taken(folder: Path, file: Path) -> str:
    """Who is there, and how to go on."""
    try:
        holder = json.loads(file.read_text())
        who = f" (process {holder['process']} since {holder['since']})"
        stop = f", stop it with kill {holder['process']}"
    except (OSError, ValueError, KeyError, TypeError):
        who = stop = ""
    return f"{folder}: another run is at work there{who}; wait for it{stop}, or take another folder"
