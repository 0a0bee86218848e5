"""What the machine can do: the bare forward, backward and SGD step of the same mini-batches, and
nothing else.

``steps``: every mini-batch by itself, the clients dealt out to as many single-threaded processes as
there are cores. The model is neither reset nor averaged, but for rounds whose outcome is asked for.

``fused`` (one local step only): the mean of the clients' models is one SGD step on the union of
their batches; one forward and one backward over it, in one process, one thread.

``fused-cores``: the same, the union dealt out to one single-threaded process a core, their
gradients added.
"""

import functools
import multiprocessing
import os
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.harness import jobs, networks
from benchmarks.peers.gate import Gate


class Core:
    """One process' share of the clients, its mini-batches laid out beforehand."""

    def __init__(
        self, job: jobs.Job, clients: range, shared: list[Tensor], total: list[Tensor]
    ) -> None:
        self.workload, self.shared, self.total = job.workload, shared, total
        self.model, self.loss = networks.load(job.workload.network, shared)
        self.parameters: list[Tensor] = list(self.model.parameters())
        x, y = torch.from_numpy(job.x), torch.from_numpy(job.y)
        self.batches = [
            [
                (x[rows], y[rows])
                for rows in (job.workload.rows(m, e) for e in range(job.workload.steps))
            ]
            for m in clients
        ]

    @functools.cached_property
    def union(self) -> tuple[Tensor, Tensor]:
        """The first batches of all clients of this process, in one piece."""
        first = [client[0] for client in self.batches]
        return torch.cat([x for x, _ in first]), torch.cat([y for _, y in first])

    def step(self, x: Tensor, y: Tensor, rate: float) -> None:
        """Forward, backward, one step of SGD."""
        gradients = torch.autograd.grad(self.loss(self.model(x), y), self.parameters)
        with torch.no_grad():
            torch._foreach_add_(self.parameters, list(gradients), alpha=-rate)

    def steps(self) -> None:
        """All local steps of all clients of this process, with nothing between them."""
        for client in self.batches:
            for x, y in client:
                self.step(x, y, self.workload.learning_rate)

    def exact_steps(self) -> None:
        """The same as a round of federated averaging: every client from the shared model, moves
        added up."""
        for client in self.batches:
            self.reset()
            for x, y in client:
                self.step(x, y, self.workload.learning_rate)
            self.add(1 / self.workload.clients)

    def fused(self) -> None:
        """One step on the union; a process with a part of the clients moves by their part of the
        mean."""
        self.step(
            *self.union, self.workload.learning_rate * len(self.batches) / self.workload.clients
        )

    def exact_fused(self) -> None:
        """The same from the shared model, the move added up."""
        self.reset()
        self.fused()
        self.add(1.0)

    def reset(self) -> None:
        """Back to the shared model."""
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, self.shared)

    def add(self, share: float) -> None:
        """Add this share of the move since the shared model to the process' total."""
        with torch.no_grad():
            moves = torch._foreach_sub([p.detach() for p in self.parameters], self.shared)
            torch._foreach_add_(self.total, moves, alpha=share)


class Cores:
    """The worker processes, told by a byte what to do."""

    def __init__(self, job: jobs.Job, number: int, kind: str) -> None:
        self.shared = [torch.from_numpy(w).share_memory_() for w in job.weights]
        self.totals = [
            [torch.zeros_like(w).share_memory_() for w in self.shared] for _ in range(number)
        ]
        self.kind = kind
        self.pipes = [self._start(job, rank, number) for rank in range(number)]

    def _start(self, job: jobs.Job, rank: int, number: int) -> Connection:
        context = multiprocessing.get_context("fork")
        here, there = context.Pipe()
        clients = range(rank, job.workload.clients, number)
        arguments = (job, clients, self.shared, self.totals[rank], there, self.kind)
        context.Process(target=work, args=arguments, daemon=True).start()
        return here

    def round(self, exact: bool) -> None:
        """One round on all cores; an exact one moves the shared model."""
        for pipe in self.pipes:
            pipe.send_bytes(b"e" if exact else b"b")
        for pipe in self.pipes:
            pipe.recv_bytes()
        if exact:
            for total in self.totals:
                torch._foreach_add_(self.shared, total)
                torch._foreach_zero_(total)


def work(
    job: jobs.Job,
    clients: range,
    shared: list[Tensor],
    total: list[Tensor],
    pipe: Connection,
    kind: str,
) -> None:
    """A worker process: single-threaded, does what the byte says, answers when done."""
    torch.set_num_threads(1)
    core = Core(job, clients, shared, total)
    bare, exact = (
        (core.steps, core.exact_steps) if kind == "steps" else (core.fused, core.exact_fused)
    )
    while True:
        (exact if pipe.recv_bytes() == b"e" else bare)()
        pipe.send_bytes(b"d")


def exactness(first: int) -> Iterator[bool]:
    """The first rounds are compared with the others' and so are exact; the timed ones after them
    are bare."""
    yield from [True] * first
    while True:
        yield False


def main() -> None:
    """Serve rounds of the workload in the folder given; the second argument says how it is done."""
    kind = sys.argv[2]
    job = jobs.read(Path(sys.argv[1]))
    number = 1 if kind == "fused" else min(len(os.sched_getaffinity(0)), job.workload.clients)
    cores = Cores(job, number, kind.removesuffix("-cores"))
    gate = Gate(lambda: cores.shared, ["torch"])
    for _, exact in zip(gate.rounds(), exactness(1), strict=False):
        cores.round(exact)


if __name__ == "__main__":
    main()
