"""Clients spread over worker processes, one thread each.

Two such workers beat one process with two threads. They are forked, so they see model and samples
where these lie: nothing is copied or pickled but the sample numbers of their part of a round.
Parameters and partial sums are in memory shared with the parent. Who works for which client depends
on nothing but the round's orders, and partial sums are added in order: same bits every time.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import multiprocessing
import os
import pickle
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection

import torch
from torch import Tensor

from headwater.learning.engines.engine import Engine
from headwater.learning.engines.parts import balanced
from headwater.learning.problem import Problem
from headwater.ledger.orders import Orders
from headwater.processes import become_worker, give_back_memory, how_it_ended

MakeEngine = Callable[[Problem], Engine]
Task = tuple[Orders, float]
"""A part of a round's orders, and the learning rate."""


class Workers:
    """The same engine in several processes, each for some of the clients.

    Attributes:
        problem: what is learned.
        count: how many processes.
    """

    def __init__(self, problem: Problem, inside: MakeEngine, count: int) -> None:
        self.problem, self.count = problem, count
        start = problem.initial()
        self._parameters = _shared(start)
        self._sums = [_shared(start) for _ in range(count)]
        self._pipes: list[Connection] = []
        self._processes: list[multiprocessing.process.BaseProcess] = []
        self._at_work = False
        # Pages stay shared until somebody writes to them: freed memory would be written to again,
        # and a look for garbage writes to every object that it looks at.
        give_back_memory()
        gc.freeze()
        for total in self._sums:
            self._start(inside, total)

    def _start(self, inside: MakeEngine, total: Tensor) -> None:
        """Fork one worker; its end of the pipe is closed here before the next one is forked.

        Were a sibling to hold that end, too, the worker's death would go unseen.
        """
        context = multiprocessing.get_context("fork")
        mine, theirs = context.Pipe()
        self._pipes.append(mine)
        arguments = inside, theirs, total, os.getpid()
        process = context.Process(target=self._serve, args=arguments, daemon=True)
        self._processes.append(process)
        process.start()
        theirs.close()

    def moves(self, parameters: Tensor, orders: Orders, learning_rate: float) -> Tensor:
        """Σ_m p_m(t) (θ_m(t, E+1) − θ(t)), each worker summing over its own clients."""
        self._parameters.copy_(parameters)
        edges = balanced(orders, len(self._pipes))
        busy = [k for k in range(len(self._pipes)) if edges[k + 1] > edges[k]]
        self._at_work = True
        for k in busy:
            self._send(k, (orders.part(edges[k], edges[k + 1]), learning_rate))
        give_back_memory()  # while the workers work
        for k in busy:
            self._receive(k)
        self._at_work = False
        total = self._sums[busy[0]].clone()
        for k in busy[1:]:
            total += self._sums[k]
        return total

    def close(self) -> None:
        """End the workers: at once if they are in the midst of a round that nobody waits for."""
        for k, process in enumerate(self._processes):
            if self._at_work:
                process.kill()
            else:
                # Closing the pipe is not enough: a process forked since may hold this end, too.
                self._send(k, None)
            self._pipes[k].close()
        for process in self._processes:
            process.join()
        gc.unfreeze()

    def _serve(self, inside: MakeEngine, pipe: Connection, total: Tensor, parent: int) -> None:
        """The life of a worker: a part of a round in, its sum out, until it is told to end."""
        become_worker(parent)
        for other in self._pipes:
            other.close()
        torch.set_num_threads(1)
        try:
            engine = inside(self.problem)
            while (task := pipe.recv()) is not None:
                total.copy_(engine.moves(self._parameters, *task))
                pipe.send(None)
        except EOFError:
            pass
        except BaseException as error:
            pipe.send((_portable(error), traceback.format_exc()))

    def _send(self, k: int, task: Task | None) -> None:
        with contextlib.suppress(OSError):  # a dead worker is reported where its answer is awaited
            self._pipes[k].send(task)

    def _receive(self, k: int) -> None:
        try:
            failure = self._pipes[k].recv()
        except (EOFError, ConnectionError):
            self._processes[k].join()
            end = how_it_ended(self._processes[k].exitcode)
            raise RuntimeError(
                f"worker {k} of {len(self._pipes)} {end}; "
                "with workers=0 everything is done in one process and takes less memory"
            ) from None
        if failure is not None:
            error, trace = failure
            told = RuntimeError(f"worker {k} failed:\n{trace}")
            # Whoever catches the errors of a loss of his own catches them from a worker, too.
            if error is None:
                raise told
            raise error from told


def _portable(error: BaseException) -> BaseException | None:
    """The error, if it is one that arrives at the other end of a pipe as it was."""
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception:  # whatever its own __init__ and __reduce__ do
        return None
    return error if type(again) is type(error) else None


def _shared(like: Tensor) -> Tensor:
    """A copy in anonymous memory that forked processes share."""
    room = mmap.mmap(-1, like.numel() * like.element_size())
    return torch.frombuffer(room, dtype=like.dtype).copy_(like)
