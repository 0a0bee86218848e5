"""Headwater as a user calls it: ``simulate``, engine and number of processes left to it.

The model that is compared comes from runs of their own that end where it is wanted; what is timed are the rounds
of one long run, let in by its progress hook.
"""

import functools
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

import headwater as hw
from benchmarks import jobs, networks
from benchmarks.peers.gate import Gate
from benchmarks.workloads import Role, Streams, Workload
from headwater.simulation import Run, simulate
from headwater.work import Plan

PLENTY = 10_000
SEED = 0


class Finished(Exception):
    """No further round is wanted: the way out of a run."""


def clients_of(job: jobs.Job) -> list[hw.Client]:
    """Every client with its rows, and in streaming workloads with its stream and its memory."""
    workload, x, y = job.workload, torch.from_numpy(job.x), torch.from_numpy(job.y)
    edges = [workload.first_row(m) for m in range(workload.clients + 1)]
    return [
        hw.Client(x[edges[m] : edges[m + 1]], y[edges[m] : edges[m + 1]], *stream(workload, m))
        for m in range(workload.clients)
    ]


def stream(workload: Workload, client: int) -> tuple[hw.Once | hw.Constant, hw.Keep | hw.Fifo | hw.Reservoir]:
    """Arrivals and memory of a client."""
    if not isinstance(workload, Streams) or workload.role(client) is Role.HISTORICAL:
        return hw.Once(), hw.Keep()
    rule = hw.Fifo if workload.role(client) is Role.FIFO else hw.Reservoir
    return hw.Constant(workload.arriving), rule(workload.capacity)


def drawn(workload: Workload, run: Run) -> np.ndarray:
    """The rows that the clients took in the last round of a run: clients × steps × batch."""
    last = len(run.history)
    work = Plan(workload.steps, workload.batch, seed=SEED).work(run.ledger.round(last))
    return work.samples.reshape(workload.steps, workload.clients, workload.batch).swapaxes(0, 1)


def main() -> None:
    """Serve rounds of the workload in the folder given."""
    job = jobs.read(Path(sys.argv[1]))
    workload = job.workload
    model, _ = networks.load(workload.network, [torch.from_numpy(w) for w in job.weights])
    follow = functools.partial(
        simulate,
        model,
        clients_of(job),
        hw.ByMemory(),
        local_steps=workload.steps,
        batch_size=workload.batch,
        learning_rate=workload.learning_rate,
        seed=SEED,
    )
    run: Run | None = None
    gate = Gate(
        lambda: [p.detach() for p in run.model.parameters()] if run else [],
        ["headwater", "torch"],
        rows=lambda: drawn(workload, run) if run else None,
    )
    for done, last in pairwise((0, *workload.checked)):
        for _ in range(last - done):
            gate.arrive()
        run = follow(rounds=last)

    def progress(_: object) -> None:
        if not gate.arrive():
            raise Finished

    gate.arrive()
    try:
        follow(rounds=workload.horizon if isinstance(workload, Streams) else PLENTY, progress=progress)
    except Finished:
        return


if __name__ == "__main__":
    main()
