"""Do all contenders compute the same? Nothing is timed before this is known."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np

from benchmarks.harness.jobs import Array, Job, read_arrays
from benchmarks.harness.reference import Reference, one_round
from benchmarks.harness.runner import Failure
from benchmarks.harness.workloads import Role, Streams, Workload

# Single precision agrees to 1e-6 on smooth losses. Where a ReLU's input is zero to within rounding,
# one contender passes the gradient and another does not: with the convolutional network that moves
# the outcome by up to 0.5 %. A client forgotten, a wrong weight or batch moves it by more than 1 %.
TOLERANCE = 0.01

Ask = Callable[[int, Path], None]  # do so many rounds and save the model there


@dataclass(frozen=True)
class Evidence:
    """What a contender gave: its models, and the rows it took in the last round, if it draws them
    itself."""

    models: list[list[Array]]
    rows: Array | None


class Check(Protocol):
    """Something that every contender has to pass."""

    def error(self, evidence: Evidence) -> float:
        """How far the contender is from the right answer, in units of a round's move."""
        ...


def collect(workload: Workload, ask: Ask, saved: Path) -> Evidence:
    """The contender's models after the rounds that are compared."""
    models = []
    for done, last in pairwise((0, *workload.checked)):
        ask(last - done, saved)
        models.append(read_arrays(saved))
    drawn = rows_beside(saved)
    return Evidence(models, np.load(drawn) if drawn.exists() else None)


def require(error: float) -> None:
    """Refuse what is too far off (or not a number)."""
    if not error <= TOLERANCE:
        raise Failure(f"computes something else: off by {error:.2g}, {TOLERANCE} is allowed")


def rows_beside(saved: Path) -> Path:
    """Where a contender that draws its own mini-batches says which rows it took: clients × steps ×
    batch."""
    return saved.with_suffix(".rows.npy")


@dataclass
class OneRound:
    """The first round, on the prescribed mini-batches or, for who draws, on those that were
    drawn."""

    job: Job

    @cached_property
    def rows(self) -> Array:
        """The prescribed mini-batches."""
        workload = self.job.workload
        of_client = np.arange(workload.steps * workload.batch).reshape(
            workload.steps, workload.batch
        )
        return np.arange(workload.clients)[:, None, None] * workload.samples + of_client

    @cached_property
    def prescribed(self) -> Reference:
        """The right answer for them; the same for all who take them."""
        return self.answer(self.rows)

    def answer(self, rows: Array) -> Reference:
        """The right answer for these mini-batches; clients have equally many samples and so equal
        shares."""
        clients = self.job.workload.clients
        return one_round(self.job, self.job.weights, rows, np.full(clients, 1 / clients))

    def error(self, evidence: Evidence) -> float:
        """Of the model after one round."""
        drawn = self.rows if evidence.rows is None else evidence.rows
        right = (
            self.prescribed if np.array_equal(drawn, self.rows) else self.answer(self.valid(drawn))
        )
        return right.error(evidence.models[0])

    def valid(self, rows: Array) -> Array:
        """Every mini-batch as large as prescribed, without repetition, from the client's own
        rows."""
        workload = self.job.workload
        if rows.shape != (workload.clients, workload.steps, workload.batch):
            raise Failure(f"drew mini-batches of shape {rows.shape}")
        if not (rows // workload.samples == np.arange(workload.clients)[:, None, None]).all():
            raise Failure("a mini-batch has rows of another client")
        if not (np.diff(np.sort(rows)) > 0).all():
            raise Failure("a mini-batch has a row twice")
        return rows


@dataclass
class StreamedRound:
    """A round when the memories have long been full: the drawn rows obey the rules, and the step is
    right."""

    job: Job
    workload: Streams

    @property
    def round(self) -> int:
        """The round that is compared."""
        return self.workload.checked[-1]

    def error(self, evidence: Evidence) -> float:
        """From the model before the round and the rows drawn in it, the model after it."""
        before, after = evidence.models
        drawn = evidence.rows
        if drawn is None:
            raise Failure("does not say which rows it drew")
        clients = range(self.workload.clients)
        for m in clients:
            self.obey(m, drawn[m])
        held = np.array([self.workload.held(m, self.round) for m in clients])
        return one_round(self.job, before, drawn, held / held.sum()).error(after)

    def obey(self, client: int, rows: Array) -> None:
        """Rows of one client's mini-batches: different ones, there already, and not gone yet."""
        numbers = rows - self.workload.first_row(client)
        role = self.workload.role(client)
        arrived = self.workload.arriving * self.round
        oldest, end = {
            Role.HISTORICAL: (0, self.workload.samples),
            Role.FIFO: (arrived - self.workload.capacity, arrived),
            Role.RESERVOIR: (0, arrived),
        }[role]
        if (
            rows.shape != (self.workload.steps, self.workload.batch)
            or not (np.diff(np.sort(rows)) > 0).all()
        ):
            raise Failure(f"client {client} drew mini-batches of shape {rows.shape} or a row twice")
        if numbers.min() < oldest or numbers.max() >= end:
            raise Failure(f"client {client} ({role.value}) drew a row that is not in its memory")
        if len(np.unique(numbers)) > self.workload.held(client, self.round):
            raise Failure(f"client {client} ({role.value}) holds more than its memory can")


def check_of(job: Job) -> Check:
    """What the contenders have to pass on this workload."""
    return StreamedRound(job, job.workload) if isinstance(job.workload, Streams) else OneRound(job)
