"""What is computed: a network, its clients and their mini-batches, the same for every contender.

The rows of the data belong to the clients one after the other. A client's local step e of every
round takes the e-th run of ``batch`` rows of its own, so that contenders which read a client's data
in order take the prescribed mini-batches without being told. A round is ``steps`` such steps of
plain SGD at every client, from the same model, and the mean of the clients' models weighted by
their numbers of samples.
"""

import dataclasses
from dataclasses import dataclass, field
from enum import Enum
from typing import Self


@dataclass(frozen=True)
class Workload:
    """One line of the table: who computes what, in how many steps.

    Attributes:
        after: a smaller workload; peers that are far behind the fastest there are not asked here.
    """

    name: str
    title: str
    network: str
    clients: int
    samples: int
    batch: int
    steps: int
    learning_rate: float
    after: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.steps * self.batch > self.samples:
            raise ValueError(
                f"{self.name}: {self.steps} batches of {self.batch} need over {self.samples} rows"
            )

    def quick(self) -> Self:
        """The same with few clients: to see that everything works, not how fast it is."""
        few = min(self.clients, 200 if self.clients > 1000 else max(4, self.clients // 25))
        return dataclasses.replace(self, clients=few, title=f"{self.title} [cut to {few} clients]")

    @property
    def longest_turn(self) -> int:
        """Rounds that a contender may do in one turn."""
        return 1000

    @property
    def checked(self) -> tuple[int, ...]:
        """The rounds after which the model is compared."""
        return (1,)

    def first_row(self, client: int) -> int:
        """Where a client's rows begin; for one past the last client, how many rows there are."""
        return client * self.samples

    def rows(self, client: int, step: int) -> slice:
        """Rows of one mini-batch."""
        first = self.first_row(client) + step * self.batch
        return slice(first, first + self.batch)


class Role(Enum):
    """How a client of a streaming workload gets and keeps its samples."""

    HISTORICAL = "all from the beginning"
    FIFO = "the newest"
    RESERVOIR = "a random choice of all seen"


@dataclass(frozen=True)
class Streams(Workload):
    """Half of the clients hold ``samples`` from the beginning; the others get ``arriving`` new ones
    a round.

    Of these, one half keeps the ``capacity`` newest, the other half a uniform choice of as many.
    Mini-batches are drawn from the memory, of which all samples count alike. A stream ends after
    ``horizon`` rounds.
    """

    arriving: int
    capacity: int
    horizon: int

    @property
    def longest_turn(self) -> int:
        """As many as leave some of the stream for the next turns."""
        return self.horizon // 8

    @property
    def checked(self) -> tuple[int, ...]:
        """Two in a row, when the memories have long been full: the step between them is
        compared."""
        settled = 2 * self.capacity // self.arriving
        return settled, settled + 1

    @property
    def historical(self) -> int:
        """How many clients are historical; they come first."""
        return self.clients // 2

    def role(self, client: int) -> Role:
        """What kind of client this is."""
        if client < self.historical:
            return Role.HISTORICAL
        return Role.FIFO if (client - self.historical) % 2 == 0 else Role.RESERVOIR

    def first_row(self, client: int) -> int:
        """Where a client's rows begin, in order of arrival."""
        fresh = max(0, client - self.historical)
        return min(client, self.historical) * self.samples + fresh * self.arriving * self.horizon

    def held(self, client: int, round: int) -> int:
        """How many samples are in the client's memory in a round, counted from 1."""
        if self.role(client) is Role.HISTORICAL:
            return self.samples
        return min(self.capacity, self.arriving * round)


def logistic(clients: int, after: str | None = None) -> Workload:
    """Logistic regression with 21 parameters; every client takes one step on its 20 samples."""
    title = f"logistic regression, {clients:,} clients, E = 1"
    name = f"logistic-{clients}"
    return Workload(name, title, "logistic", clients, 20, 20, 1, 0.5, after=after)


def images(steps: int) -> Workload:
    """The convolutional network on 50 clients."""
    title = f"CIFAR network, 50 clients, E = {steps}"
    return Workload(f"images-{steps}", title, "images", 50, 200, 32, steps, 0.005)


WORKLOADS = (
    logistic(50),
    logistic(1000),
    Workload("digits", "784–1024–62, 100 clients, E = 5", "digits", 100, 200, 32, 5, 0.1),
    images(1),
    images(5),
    Workload("characters", "Shakespeare RNN, 20 clients, E = 1", "characters", 20, 200, 32, 1, 0.5),
    Streams(
        "streams",
        "784–1024–62 from streams, 100 clients, E = 5",
        "digits",
        100,
        200,
        32,
        5,
        0.1,
        4,
        40,
        160,
    ),
    logistic(100_000, after="logistic-1000"),  # a round of the slowest would take 15 minutes
)
