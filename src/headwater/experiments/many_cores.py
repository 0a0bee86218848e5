"""Many pieces of work on as many cores as there are: one process per core, one thread each.

Workers are forked, so they see model and data where they lie. Each has a pipe of its own, dies with
its parent and leaves signals to it. Nothing that they share can be left locked by one that is
killed: progress is an array of numbers, stopping a flag.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_int
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

import torch

from headwater.errors import InputError, in_own_code
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
    crew: list[_Worker[T]] = []
    try:
        for _ in range(min(processes or cores(), len(names))):
            crew.append(_Worker(work, names, shared))
            crew[-1].begin(waiting.pop())
        while len(answers) < len(names):
            done = {worker.place: worker.answer() for worker in _ready(crew)}
            answers |= done
            for worker in crew:
                if worker.place in done and waiting:
                    worker.begin(waiting.pop())
            if watch:
                watch(shared.rounds[: len(names)], list(done.items()))
    except BaseException as error:
        busy = [worker for worker in crew if worker.place not in answers]
        shared.stop.value = 1
        _end(crew)
        error.add_note(_where(busy, shared, len(answers), len(names)))
        raise
    _end(crew)
    return [answers[place] for place in range(len(names))]


@dataclass(frozen=True)
class _Shared:
    """What all processes see: rounds done by each piece, and whether they shall stop."""

    rounds: Any
    stop: Any


class _Worker(Generic[T]):
    """A process that does one piece of work after the other."""

    def __init__(
        self, work: Callable[[int, Progress], T], names: Sequence[str], shared: _Shared
    ) -> None:
        self.place, self.names = -1, names
        self.pipe, theirs = _fork.Pipe()
        self.process = _fork.Process(
            target=_serve, args=(work, shared, theirs, os.getpid()), daemon=True
        )
        with _signals_held_back():
            self.process.start()
        theirs.close()  # so that the worker's death is the end of the pipe

    @property
    def name(self) -> str:
        """What its piece of work is called."""
        return self.names[self.place]

    def begin(self, place: int) -> None:
        """Let it do a piece of work."""
        self.place = place
        with contextlib.suppress(OSError):  # a dead worker is reported where its answer is awaited
            self.pipe.send(place)

    def answer(self) -> T:
        """What it has sent, or the error that it has met."""
        try:
            found = self.pipe.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            raise WorkerKilledError(
                f"{self.name}: its process {how_it_ended(self.process.exitcode)}; what is "
                "finished is kept, the same command goes on"
            ) from None
        if isinstance(found, BaseException):
            raise found
        return found


def _ready(crew: Sequence[_Worker[T]]) -> list[_Worker[T]]:
    """Those who have something to say, after a while at most."""
    heard = wait([worker.pipe for worker in crew], timeout=0.2)
    return [worker for worker in crew if worker.pipe in heard]


def _serve(
    work: Callable[[int, Progress], T], shared: _Shared, pipe: Connection, parent: int
) -> None:
    become_worker(parent)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent to all, it is the parent who stops us
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    torch.set_num_threads(1)
    with contextlib.suppress(EOFError, ConnectionError):
        while (place := pipe.recv()) is not None:
            pipe.send(_attempt(work, place, shared))


def _attempt(work: Callable[[int, Progress], T], place: int, shared: _Shared) -> T | BaseException:
    """The answer, or the error to be raised by the parent."""

    def progress(rounds: int) -> None:
        shared.rounds[place] = rounds
        if shared.stop.value:
            raise StoppedError

    try:
        return work(place, progress)
    except (InputError, OSError, MemoryError, StoppedError) as error:
        return error
    except BaseException as error:
        theirs = in_own_code(error)
        if theirs is not None:
            return theirs
        return RuntimeError(f"{type(error).__name__} in a worker:\n{traceback.format_exc()}")


def _end(crew: Sequence[_Worker[Any]]) -> None:
    """Let all end, after their round at most; a second signal, or a long round, ends them now."""
    latest = time.monotonic() + _PATIENCE
    try:
        for worker in crew:
            with contextlib.suppress(OSError):
                worker.pipe.send(None)
        for worker in crew:
            worker.process.join(max(0.0, latest - time.monotonic()))
    finally:
        for worker in crew:
            worker.process.kill()  # the ones that have ended do not mind
            worker.process.join()
            worker.pipe.close()


def _where(busy: Sequence[_Worker[Any]], shared: _Shared, finished: int, total: int) -> str:
    """How far everything is, for the message to a user who has stopped it."""
    rounds = [f"round {shared.rounds[worker.place]} of {worker.name}" for worker in busy]
    return f"after {' and '.join([*rounds, f'{finished} of {total} finished'])}"


@contextlib.contextmanager
def _signals_held_back() -> Iterator[None]:
    """A child that has not begun yet must not act on a signal as its parent would."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
