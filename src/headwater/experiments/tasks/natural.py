"""Tasks whose clients are as they are: the writers of FEMNIST, the roles of Shakespeare.

The paper makes M_hist / M of the clients historical; the others are there for a few rounds only.
Every client is tested on its own test samples, and the accuracy is the mean over clients. Clients
without a training sample or without a test sample are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from headwater.experiments.tasks.partition import by_client, historical_clients
from headwater.experiments.tasks.streams import visiting
from headwater.experiments.tasks.task import Defaults, Split, part, pooled
from headwater.learning.federation import Federation, Part
from headwater.learning.stored import Rows

Owners = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Owned:
    """Samples and the number of each one's owner."""

    x: NDArray[Any]
    y: NDArray[np.integer[Any]]
    owner: Owners

    def part(self, clients: NDArray[np.bool_]) -> Owned:
        """The samples of some owners, who are numbered anew, without gaps."""
        if clients.all():
            return self  # where they lie, which may be in a file
        there = clients[self.owner]
        return Owned(self.x[there], self.y[there], (np.cumsum(clients) - 1)[self.owner[there]])


@dataclass(frozen=True, eq=False)
class Natural:
    """Samples with owners, numbered from 0 without gaps, for training and for testing."""

    train: Owned
    test: Owned
    complete: bool

    @classmethod
    def of(cls, train: Owned, test: Owned, complete: bool) -> Natural:
        """Those whose owners have samples of both kinds.

        >>> x = np.zeros(3)
        >>> train, test = Owned(x, x, np.array([0, 0, 2])), Owned(x, x, np.array([0, 1, 2]))
        >>> data = Natural.of(train, test, True)
        >>> data.train.owner, data.test.owner, data.clients
        (array([0, 0, 1]), array([0, 1]), 2)
        """
        size = int(max(train.owner.max(), test.owner.max())) + 1
        both = (np.bincount(train.owner, minlength=size) > 0) & (
            np.bincount(test.owner, minlength=size) > 0
        )
        return cls(train.part(both), test.part(both), complete)

    @property
    def clients(self) -> int:
        """The number of owners, M."""
        return int(self.train.owner.max()) + 1


@dataclass(frozen=True)
class NaturalTask:
    """What both tasks share.

    Attributes:
        data_dir: Where the set's folder lies; None stands for the user's cache.
        validation: The fraction of every client's training samples that learning rates are chosen
            by.
    """

    data_dir: Path | None = None
    validation: float = 0.2

    name: ClassVar[str]
    fraction_of: ClassVar[str] = "clients"
    defaults: ClassVar[Defaults]
    stay: ClassVar[int]
    """Rounds in which a fresh client is there, at most."""

    @cached_property
    def data(self) -> Natural:
        """The clients that have training and test samples.

        Loaded once, and shared by processes that are forked afterwards.
        """
        raise NotImplementedError

    @property
    def complete(self) -> bool:
        """Whether the files are the whole original."""
        return self.data.complete

    def features(self, x: NDArray[Any]) -> Rows:
        """What the model is fed of some samples."""
        return torch.from_numpy(x)

    def split(self, historical: float, rounds: int, seed: int) -> Split:
        """A fraction of the clients is historical, the others come for a round or a few each."""
        data = self.data
        old = historical_clients(data.clients, historical, seed)
        everything = by_client(data.train.owner, data.clients, seed)
        training, held_out = everything.carve(self.validation)
        own = by_client(data.test.owner, data.clients, seed, "test")
        x, y = self.features(data.train.x), torch.from_numpy(data.train.y)
        test = part(self.features(data.test.x), torch.from_numpy(data.test.y), own)

        def federation(train: Part, test: Part) -> Federation:
            return visiting(train, old, rounds, self.stay, seed, test)

        return Split(
            tuning=federation(part(x, y, training), pooled(x, y, held_out)),
            final=federation(part(x, y, everything), test),
        )
