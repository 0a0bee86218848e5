"""Headwater as a user calls it: ``hw.simulate``, engine and number of processes left to it.

The model that is compared comes from runs of their own that end where it is wanted; what is timed
are the rounds of one long run, let in by its progress hook.
"""

import contextlib
import functools
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

import headwater as hw
from benchmarks.harness import jobs, networks
from benchmarks.harness.workloads import Role, Streams, Workload
from benchmarks.peers.gate import Finished, Gate
from headwater.experiments.tasks.models import Logistic
from headwater.ledger.orders import LocalWork

PLENTY = 10_000
SEED = 0


def clients_of(job: jobs.Job) -> list[hw.Client]:
    """Every client with its rows, and in streaming workloads with its stream and its memory."""
    workload, x, y = job.workload, torch.from_numpy(job.x), torch.from_numpy(job.y)
    edges = [workload.first_row(m) for m in range(workload.clients + 1)]
    return [
        hw.Client(x[edges[m] : edges[m + 1]], y[edges[m] : edges[m + 1]], *stream(workload, m))
        for m in range(workload.clients)
    ]


def stream(
    workload: Workload, client: int
) -> tuple[hw.Once | hw.Constant, hw.Keep | hw.Fifo | hw.Reservoir]:
    """Arrivals and memory of a client."""
    if not isinstance(workload, Streams) or workload.role(client) is Role.HISTORICAL:
        return hw.Once(), hw.Keep()
    rule = hw.Fifo if workload.role(client) is Role.FIFO else hw.Reservoir
    return hw.Constant(workload.arriving), rule(workload.capacity)


def batch_of(workload: Workload) -> int | None:
    """Of a local step; None where that is all a client has."""
    return None if workload.batch == workload.samples else workload.batch


def drawn(workload: Workload, run: hw.Run) -> np.ndarray:
    """The rows that the clients took in the last round of a run: clients × steps × batch."""
    orders = LocalWork(workload.steps, batch_of(workload), seed=SEED).orders(
        run.ledger.round(len(run.history))
    )
    return orders.samples.reshape(workload.steps, workload.clients, workload.batch).swapaxes(0, 1)


def model_of(job: jobs.Job) -> torch.nn.Module:
    """The network of the workload; for logistic regression the one that the package ships."""
    weights = [torch.from_numpy(w) for w in job.weights]
    if job.workload.network != "logistic":
        return networks.load(job.workload.network, weights)[0]
    model = Logistic()
    torch.nn.utils.vector_to_parameters(torch.cat([w.ravel() for w in weights]), model.parameters())
    return model


def main() -> None:
    """Serve rounds of the workload in the folder given."""
    job = jobs.read(Path(sys.argv[1]))
    workload = job.workload
    model, clients = model_of(job), clients_of(job)
    del job  # a user has no second copy of the first weights
    follow = functools.partial(
        hw.simulate,
        model,
        clients,
        hw.ByMemory(),
        local_steps=workload.steps,
        batch_size=batch_of(workload),
        learning_rate=workload.learning_rate,
        seed=SEED,
    )
    run: hw.Run | None = None
    gate = Gate(
        lambda: [p.detach() for p in run.model.parameters()] if run else [],
        ["headwater", "torch"],
        rows=lambda: drawn(workload, run) if run else None,
    )
    for done, last in pairwise((0, *workload.checked)):
        for _ in range(last - done):
            gate.arrive()
        run = follow(rounds=last)
    gate.arrive()
    with contextlib.suppress(Finished):
        follow(
            rounds=workload.horizon if isinstance(workload, Streams) else PLENTY,
            progress=gate.enter,
        )


if __name__ == "__main__":
    main()
