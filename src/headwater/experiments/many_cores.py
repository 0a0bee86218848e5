"""Many pieces of work on as many cores as there are: each in a process of its own, one thread each.

A process is forked for every piece, so it sees model and data where they lie, and nothing waits in
a queue. It dies with its parent and leaves signals to it. Nothing that the processes share can be
left locked by one that is killed: progress is an array of numbers, stopping a flag.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_int
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

import torch

from headwater.errors import InputError
from headwater.processes import become_worker, cores, how_it_ended

T = TypeVar("T")
Progress = Callable[[int], None]
"""Called with the rounds that a piece of work has done."""
Watch = Callable[[Sequence[int], Sequence[tuple[int, Any]]], None]
"""Called with the rounds done by each piece, and the pieces just finished with their answers."""

_fork = multiprocessing.get_context("fork")
_PATIENCE = 20.0  # seconds for the rounds under way, when everything is to stop
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StoppedError(Exception):
    """Another piece of work has failed, or the user wants to stop."""


class WorkerKilledError(InputError):
    """A process ended without an answer."""


def each_in_a_process(
    work: Callable[[int, Progress], T],
    names: Sequence[str],
    watch: Watch | None = None,
    processes: int | None = None,
) -> list[T]:
    """The answers of all pieces of work, the first ones begun first.

    Whatever ends this early, an error, a signal or a killed worker, stops the other pieces after
    their round, and is raised when they have ended.

    Args:
        work: What is to be done for a number, in a process that is forked for it.
        names: What each piece is called in messages.
        watch: Called several times a second.
        processes: How many at once; None stands for one per core.
    """
    shared = _Shared(_fork.RawArray(c_int, max(1, len(names))), _fork.RawValue(c_int, 0))
    waiting, answers = list(range(len(names)))[::-1], dict[int, T]()
    busy: list[_Worker[T]] = []
    try:
        while waiting or busy:
            while waiting and len(busy) < (processes or cores()):
                place = waiting.pop()
                busy.append(_Worker(work, place, names[place], shared))
            wait([worker.answers for worker in busy], timeout=0.2)
            done = [worker for worker in busy if worker.answers.poll()]
            for worker in done:
                answers[worker.place] = worker.answer()
                busy.remove(worker)
            if watch:
                found = [(worker.place, answers[worker.place]) for worker in done]
                watch(shared.rounds[: len(names)], found)
    except BaseException as error:
        _end(busy, shared)
        error.add_note(_where(busy, shared, len(answers), len(names)))
        raise
    return [answers[place] for place in range(len(names))]


@dataclass(frozen=True)
class _Shared:
    """What all processes see: rounds done by each piece, and whether they shall stop."""

    rounds: Any
    stop: Any


class _Worker(Generic[T]):
    """One piece of work in its process."""

    def __init__(
        self, work: Callable[[int, Progress], T], place: int, name: str, shared: _Shared
    ) -> None:
        self.place, self.name = place, name
        self.answers, theirs = _fork.Pipe(duplex=False)
        self.process = _fork.Process(
            target=_serve, args=(work, place, shared, theirs, os.getpid()), daemon=True
        )
        with _signals_held_back():
            self.process.start()
        theirs.close()  # so that the worker's death is the end of the pipe

    def answer(self) -> T:
        """What it has sent, or the error that it has met."""
        try:
            found = self.answers.recv()
        except EOFError:
            self.process.join()
            raise WorkerKilledError(
                f"{self.name}: its process {how_it_ended(self.process.exitcode)}; what is "
                "finished is kept, the same command goes on"
            ) from None
        finally:
            self.answers.close()
        self.process.join()
        if isinstance(found, BaseException):
            raise found
        return found


def _serve(
    work: Callable[[int, Progress], T], place: int, shared: _Shared, pipe: Connection, parent: int
) -> None:
    become_worker(parent)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent to all, it is the parent who stops us
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    torch.set_num_threads(1)

    def progress(rounds: int) -> None:
        shared.rounds[place] = rounds
        if shared.stop.value:
            raise StoppedError

    try:
        pipe.send(work(place, progress))
    except (InputError, OSError, MemoryError, StoppedError) as error:
        pipe.send(error)
    except BaseException as error:
        pipe.send(RuntimeError(f"{type(error).__name__} in a worker:\n{traceback.format_exc()}"))


def _end(busy: Sequence[_Worker[Any]], shared: _Shared) -> None:
    """Let all stop after their round; a second signal, or too long a round, ends them at once."""
    shared.stop.value = 1
    latest = time.monotonic() + _PATIENCE
    try:
        for worker in busy:
            worker.process.join(max(0.0, latest - time.monotonic()))
    finally:
        for worker in busy:
            worker.process.kill()  # the ones that have ended do not mind
            worker.process.join()


def _where(busy: Sequence[_Worker[Any]], shared: _Shared, finished: int, total: int) -> str:
    """How far everything is, for the message to a user who has stopped it."""
    rounds = [f"round {shared.rounds[worker.place]} of {worker.name}" for worker in busy]
    return f"after {' and '.join([*rounds, f'{finished} of {total} finished'])}"


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """A child that has not begun yet must not act on a signal as its parent would."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
