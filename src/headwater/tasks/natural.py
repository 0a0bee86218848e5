"""Tasks whose clients are as they are: the writers of FEMNIST, the roles of Shakespeare.

The paper makes M_hist / M of the clients historical; the others are there for a few rounds only. Every client is
tested on its own test samples, and the accuracy is the mean over clients. Clients without a training sample or
without a test sample are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from headwater.federation import Part
from headwater.tasks.partition import by_client, historical_clients
from headwater.tasks.streams import visiting
from headwater.tasks.task import Split, part, pooled

Owners = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Natural:
    """Samples with owners, numbered from 0 without gaps, for training and for testing."""

    x: Tensor
    y: Tensor
    owner: Owners
    test_x: Tensor
    test_y: Tensor
    test_owner: Owners
    complete: bool

    @property
    def clients(self) -> int:
        """M."""
        return int(self.owner.max()) + 1


def both(owner: Owners, test_owner: Owners) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Owners]:
    """Which samples' owners have samples of both kinds, and a table of these owners' new numbers.

    >>> train, test, number = both(np.array([0, 0, 2]), np.array([0, 1, 2]))
    >>> train, test, number[[0, 2]]
    (array([ True,  True,  True]), array([ True, False,  True]), array([0, 1]))
    """
    size = int(max(owner.max(), test_owner.max())) + 1
    there = (np.bincount(owner, minlength=size) > 0) & (np.bincount(test_owner, minlength=size) > 0)
    return there[owner], there[test_owner], np.cumsum(there) - 1


def natural_split(
    data: Natural, historical: float, rounds: int, seed: int, *, stay: int, validation: float
) -> Split:
    """Some clients historical, the others there for ``stay`` rounds at most."""
    old = historical_clients(data.clients, historical, seed)
    everything = by_client(data.owner, data.clients, seed)
    training, held_out = everything.carve(validation)
    own = by_client(data.test_owner, data.clients, seed, "test")
    test = Part(data.test_x, data.test_y, own.offsets, own.rows)

    def federation(train: Part, test: Part) -> Any:
        return visiting(train, old, rounds, stay, seed, test)

    return Split(
        tuning=federation(part(data.x, data.y, training), pooled(data.x, data.y, held_out)),
        final=federation(part(data.x, data.y, everything), test),
    )
