"""Clients that step together: their mini-batches as equal rows of one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwater.learning.problem import Problem
from headwater.ledger.orders import Orders

Cost = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""Batch sizes -> what a client with such a batch, or one padded to it, costs."""


@dataclass(frozen=True)
class Group:
    """Some clients of a round, their batches padded to the longest.

    Attributes:
        orders: the round.
        shares: p_m(t) of the clients of the group.
        columns: (clients, longest batch) columns of the orders' tables; a shorter batch repeats its
            last sample.
        real: which of them are not padding.
    """

    orders: Orders
    shares: NDArray[np.float64]
    columns: NDArray[np.int64]
    real: NDArray[np.bool_]

    def step(
        self, problem: Problem, number: int, kind: torch.dtype
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Features, labels and coefficients of a local step, client by client.

        Padding has the coefficient 0.
        """
        x, y = problem.take(problem.where(self.orders.samples[number][self.columns].ravel()))
        coefficients = self.orders.coefficients[number][self.columns] * self.real
        return x, y, problem.numbers(coefficients.ravel(), kind)


def groups(orders: Orders, cost: Cost, room: int) -> Iterator[Group]:
    """All clients of a round, about as many together as have room.

    Those with similar batches come together, so that there is little padding. Clients with equal
    batches are dealt out evenly: a small last group would cost nearly as much as a full one, and
    another size of group new memory.
    """
    sizes = np.diff(orders.offsets)
    by_size = np.argsort(sizes, kind="stable")
    rising = sizes[by_size]
    start = 0
    while start < len(by_size):
        # Costs rise along the row, so no more than this can fit. Were all that are left looked at
        # for every group, the work would grow with the square of the clients.
        least = int(cost(sizes[by_size[start : start + 1]])[0])
        left = by_size[start : start + max(1, room // least)]
        padded = cost(sizes[left]) * np.arange(1, len(left) + 1)  # of the first, the first two, …
        most = max(1, int(np.searchsorted(padded, room, side="right")))
        remaining = len(by_size) - start
        if rising[start] == rising[-1]:
            most = -(-remaining // -(-remaining // most))  # as many groups, evenly filled
        members = left[:most]
        own = sizes[members][:, None]
        place = np.arange(own.max())
        columns = orders.offsets[members][:, None] + np.minimum(place, own - 1)
        yield Group(orders, orders.shares[members], columns, place < own)
        start += len(members)
