"""Many clients' small models at once: a client is a row, a local step is one batched gradient.

For models that :mod:`~headwater.learning.engines.lockstep` cannot take: with normalisation, say, or
small convolutions. One client after the other, a step of such a model is hardly more than calls;
here the calls are made once for all clients (``torch.func.vmap``), which is 3 to 24 times as fast
with a hundred clients or more (``python -m benchmarks.studies.small_networks``).
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call, grad, vmap

from headwater.learning.engines.groups import Group, groups
from headwater.learning.problem import Problem
from headwater.ledger.orders import Orders

_ELEMENTS = 1 << 22
"""Features and parameters that are in memory at once."""


class Batched:
    """All clients step together, each on its own copy of the parameters."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._gradients = vmap(grad(self._objective))

    def _objective(self, vector: Tensor, x: Tensor, y: Tensor, coefficients: Tensor) -> Tensor:
        output = functional_call(self.problem.model, self.problem.views(vector), (x,))
        return (self.problem.loss(output, y) * coefficients).sum()

    def moves(self, parameters: Tensor, orders: Orders, learning_rate: float) -> Tensor:
        """Σ_m p_m(t) (θ_m(t, E+1) − θ(t)), group by group."""
        total = torch.zeros_like(parameters)
        for group in groups(orders, self._cost, _ELEMENTS):
            total += self._moves_of(group, parameters, learning_rate)
        return total

    def _cost(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers in memory for clients with such batches."""
        return self.problem.size * 4 + sizes * self.problem.x[0].numel()

    def _moves_of(self, group: Group, parameters: Tensor, learning_rate: float) -> Tensor:
        local = parameters.expand(len(group.shares), -1).clone()
        for number in range(len(group.orders.samples)):
            batches = group.step(self.problem, number, local.dtype)
            by_client = (part.unflatten(0, group.columns.shape) for part in batches)
            local -= learning_rate * self._gradients(local, *by_client)
        return self.problem.numbers(group.shares, local.dtype) @ (local - parameters)

    def close(self) -> None:
        """Nothing to let go."""
