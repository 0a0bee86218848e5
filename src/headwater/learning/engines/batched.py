"""Many clients' tiny models at once: a client is a row, a local step is one batched gradient
(torch.func.vmap)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call, grad, vmap

from headwater.learning.engines.groups import Group, groups
from headwater.learning.problem import Problem
from headwater.ledger.orders import Orders

_ELEMENTS = 1 << 22  # of features and parameters that are in memory at once


class Batched:
    """All clients step together, each on its own copy of the parameters."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._gradients = vmap(grad(self._objective))

    def _objective(self, vector: Tensor, x: Tensor, y: Tensor, coefficients: Tensor) -> Tensor:
        losses = self.problem.loss(
            functional_call(self.problem.model, self.problem.views(vector), (x,)), y
        )
        return (losses * coefficients).sum()

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
            batch = (
                t.unflatten(0, group.columns.shape)
                for t in group.step(self.problem, number, local.dtype)
            )
            local -= learning_rate * self._gradients(local, *batch)
        return torch.from_numpy(group.shares).to(local.dtype) @ (local - parameters)

    def close(self) -> None:
        """Nothing to let go."""
