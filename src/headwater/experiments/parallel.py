"""Cells on as many cores as there are: one process a core, one thread each."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from headwater.errors import InputError
from headwater.experiments.cells import Cell, Result
from headwater.experiments.experiment import Experiment
from headwater.processes import cores

Watch = Callable[[Sequence[int], Sequence[tuple[Cell, Result]]], None]


def run_cells(
    experiment: Experiment,
    cells: Sequence[Cell],
    watch: Watch | None = None,
    processes: int | None = None,
) -> list[Result]:
    """Run the cells that are not finished yet, the first ones first; results in the order of the
    cells.

    Args:
        experiment: where they belong.
        cells: what to run.
        watch: called several times a second with the rounds done by each cell and the cells just
            finished.
        processes: how many cells at once; None: one a core.
    """
    results = [experiment.result(cell) for cell in cells]
    todo = [k for k, result in enumerate(results) if result is None]
    context = multiprocessing.get_context("fork")
    rounds = context.Array(
        "i", [0 if k in set(todo) else experiment.setup.rounds for k in range(len(cells))]
    )
    if watch:
        watch(rounds[:], [])
    if todo:
        workers = min(processes or cores(), len(todo))
        stop = context.Event()
        shared = (experiment, cells, rounds, stop, os.getpid())
        with ProcessPoolExecutor(workers, context, _prepare, shared) as pool:
            running = {pool.submit(_run, k): k for k in todo}
            try:
                _collect(running, cells, results, rounds, watch)
            except BaseException:
                stop.set()  # the others stop after their round; what they have done is on disk
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    return [result for result in results if result is not None]


def _collect(
    running: dict[Future[Result], int],
    cells: Sequence[Cell],
    results: list[Result | None],
    rounds: Any,
    watch: Watch | None,
) -> None:
    waiting = set(running)
    while waiting:
        done, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
        for future in done:
            results[running[future]] = future.result()
        if watch:
            watch(rounds[:], [(cells[running[f]], f.result()) for f in done])


class _StoppedError(Exception):
    """Another cell has failed, or the user wants to stop."""


_mine: tuple[Experiment, Sequence[Cell], Any, Any, int]


def _prepare(*shared: Any) -> None:
    global _mine  # noqa: PLW0603 (a worker process serves one experiment and nothing else)
    _mine = shared
    torch.set_num_threads(1)


def _run(k: int) -> Result:
    experiment, cells, rounds, stop, parent = _mine

    def progress(record: Any) -> None:
        rounds[k] = record.round
        if stop.is_set():
            raise _StoppedError
        if (
            os.getppid() != parent
        ):  # killed: whoever runs the command again must find the folder at rest
            os._exit(1)

    return experiment.run(cells[k], progress)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other processes out of a run folder while we work there."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / f".{folder.name}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{folder}: another run is at work there; wait for it, or choose another --out"
            ) from None
        yield
