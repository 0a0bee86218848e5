"""One weighted pass over all clients' batches, for a single local step.

With E = 1 every client starts from the same θ, so Σ_m p_m(t) (θ_m − θ) = −η Σ_m p_m(t) g_m is one
weighted gradient over the union of the clients' batches: one forward, one backward, however many
clients there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from headwater.learning.engines.descent import descent_of
from headwater.learning.problem import Problem, Slice, chunks
from headwater.ledger.orders import Orders


class Fused:
    """All clients in one pass (E = 1 only)."""

    def __init__(self, problem: Problem, chunk: int | None = None) -> None:
        self.problem = problem
        self._descent = descent_of(problem)
        self._chunk = chunk or comfortable_batch(problem)
        self._union: _Union | None = None

    def moves(self, parameters: Tensor, orders: Orders, learning_rate: float) -> Tensor:
        """−η Σ_m p_m(t) g_m."""
        assert len(orders.samples) == 1, "the fused pass is for one local step"
        union = self._union_of(orders)
        weights = union.weights * -learning_rate
        self._descent.vector.copy_(parameters)
        total = torch.zeros_like(parameters)
        sum_of_moves = self._descent.aim(total)
        for piece in chunks(len(weights), self._chunk):
            x, y = self.problem.take(_within(union.rows, piece))
            sum_of_moves.add_gradient(x, y, weights[piece])
        return total

    def _union_of(self, orders: Orders) -> _Union:
        """Worked out once for all rounds in a row in which no memory changes."""
        if self._union is None or not orders.repeats(self._union.orders):
            self._union = _Union.of(orders, self.problem, self._descent.vector.dtype)
        return self._union

    def close(self) -> None:
        """Nothing to let go."""


@dataclass(frozen=True)
class _Union:
    """The batches of all clients of a round as one.

    Attributes:
        orders: the round.
        rows: of the samples.
        weights: p_m(t) times the sample's coefficient.
    """

    orders: Orders
    rows: Slice
    weights: Tensor

    @classmethod
    def of(cls, orders: Orders, problem: Problem, kind: torch.dtype) -> _Union:
        shares = np.repeat(orders.shares, np.diff(orders.offsets))
        weights = problem.numbers(orders.coefficients[0] * shares, kind)
        return cls(orders, problem.where(orders.samples[0]), weights)


def comfortable_batch(problem: Problem) -> int:
    """How many samples to take through the model at once.

    Enough to be busy, few enough to stay in the cache. Measured with a process on each of two
    cores, median of six, microseconds a sample: CIFAR network 1019 (32 at once), 953 (64), 924
    (128), 1040 (200), 1131 (267), 1121 (400); recurrent network 2380 (32), 2028 (64), 1920 (107),
    1901 (160), 2005 (320). Tiny models get faster up to a few megabytes of features.
    """
    few, features = 128, 1 << 22
    return max(few, features // problem.x[0].numel()) if problem.size <= 4096 else few


def _within(rows: Slice, piece: slice) -> Slice:
    if isinstance(rows, slice):
        return slice(rows.start + piece.start, rows.start + piece.stop)
    return rows[piece]
