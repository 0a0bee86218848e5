"""Clients spread over worker processes, one thread each; two such workers beat one process with two
threads.

Workers are forked, so they see model and samples where these lie: nothing is copied or pickled but
the sample numbers of their part of a round. Parameters and partial sums are in memory shared with
the parent. Who works for which client depends on nothing but the round's work, and partial sums are
added in order: same bits every time.
"""

from __future__ import annotations

import contextlib
import mmap
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection

import numpy as np
import torch
from torch import Tensor

from headwater.learning.engines.engine import Engine
from headwater.learning.problem import Problem
from headwater.ledger.orders import Orders

MakeEngine = Callable[[Problem], Engine]


class Workers:
    """The same engine in several processes, each for some of the clients."""

    def __init__(self, problem: Problem, inside: MakeEngine, count: int) -> None:
        self.problem = problem
        self._parameters = _shared(problem.initial())
        self._sums = [_shared(problem.initial()) for _ in range(count)]
        context = multiprocessing.get_context("fork")
        self._pipes: list[Connection] = []
        self._processes = []
        for total in (
            self._sums
        ):  # pipe by pipe: were a sibling to hold this one's end, its death would go unseen
            mine, theirs = context.Pipe()
            self._pipes.append(mine)
            self._processes.append(
                context.Process(target=self._serve, args=(inside, theirs, total), daemon=True)
            )
            self._processes[-1].start()
            theirs.close()

    def moves(self, parameters: Tensor, orders: Orders, learning_rate: float) -> Tensor:
        """Σ_m p_m(t) (θ_m(t, E+1) − θ(t)), each worker summing over its own clients."""
        self._parameters.copy_(parameters)
        edges = _balanced(orders, len(self._pipes))
        for pipe, first, last in zip(self._pipes, edges[:-1], edges[1:], strict=True):
            self._send(pipe, (orders.part(first, last), learning_rate) if last > first else None)
        busy = [k for k in range(len(self._pipes)) if edges[k + 1] > edges[k]]
        for k, pipe in enumerate(self._pipes):
            self._receive(k, pipe)
        return (
            torch.stack([self._sums[k] for k in busy]).sum(0)
            if len(busy) > 1
            else self._sums[busy[0]].clone()
        )

    def close(self) -> None:
        """End the workers."""
        for pipe in self._pipes:
            self._send(
                pipe, "end"
            )  # closing is not enough if a process forked since holds this end too
            pipe.close()
        for process in self._processes:
            process.join()

    def _serve(self, inside: MakeEngine, pipe: Connection, total: Tensor) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
        for other in self._pipes:
            other.close()  # so that a worker sees the end when the parent dies, however it dies
        torch.set_num_threads(1)
        try:
            engine = inside(self.problem)
            while (order := pipe.recv()) != "end":
                if order is not None:
                    total.copy_(engine.moves(self._parameters, *order))
                pipe.send(None)
        except EOFError:
            pass
        except BaseException:
            pipe.send(traceback.format_exc())

    def _send(self, pipe: Connection, order: tuple[Orders, float] | str | None) -> None:
        with contextlib.suppress(OSError):  # a dead worker is reported where its answer is awaited
            pipe.send(order)

    def _receive(self, k: int, pipe: Connection) -> None:
        try:
            problem = pipe.recv()
        except (EOFError, ConnectionError):
            self._processes[k].join()
            code = self._processes[k].exitcode
            raise RuntimeError(
                f"worker {k} ended with code {code} (killed, or out of memory)"
            ) from None
        if problem is not None:
            raise RuntimeError(f"worker {k} failed:\n{problem}")


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def can_fork() -> bool:
    """Is there a fork that workers can come from?"""
    return "fork" in multiprocessing.get_all_start_methods()


def _shared(like: Tensor) -> Tensor:
    """A copy in anonymous memory that forked processes share."""
    room = mmap.mmap(-1, like.numel() * like.element_size())
    return torch.frombuffer(room, dtype=like.dtype).copy_(like)


def _balanced(orders: Orders, parts: int) -> list[int]:
    """Cut the clients into runs of about equal numbers of samples."""
    middles = (orders.offsets[:-1] + orders.offsets[1:]) / 2
    goals = orders.offsets[-1] * np.arange(1, parts) / parts
    return [0, *np.searchsorted(middles, goals).tolist(), len(orders.clients)]
