"""One client after the other, in place on one flat vector, the aggregate a running sum: memory is
O(model)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from headwater.learning.engines.closed_form import descent_of
from headwater.learning.problem import Problem
from headwater.ledger.orders import Orders


class Sequential:
    """The loop without its copies: local steps move the parameters themselves."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._descent = descent_of(problem)

    def moves(self, parameters: Tensor, orders: Orders, learning_rate: float) -> Tensor:
        """Σ_m p_m(t) (θ_m(t, E+1) − θ(t)) = Σ_m p_m(t) θ_m(t, E+1) − θ(t) Σ_m p_m(t)."""
        local = self._descent.vector
        total = parameters * -float(orders.shares.sum())
        for k, share in enumerate(orders.shares):
            local.copy_(parameters)
            self._local_steps(orders, k, learning_rate)
            total.add_(local, alpha=float(share))
        return total

    def _local_steps(self, orders: Orders, k: int, learning_rate: float) -> None:
        mine = slice(orders.offsets[k], orders.offsets[k + 1])
        coefficients = torch.from_numpy(np.ascontiguousarray(orders.coefficients[:, mine]))
        coefficients = coefficients.to(self._descent.vector.dtype)
        for step in range(len(orders.samples)):
            self.problem.reseed(orders.number, int(orders.clients[k]), step)
            x, y = self.problem.take(self.problem.where(orders.samples[step, mine]))
            self._descent.add_gradient(
                x, y, coefficients[step], -learning_rate, self._descent.vector
            )

    def close(self) -> None:
        """Nothing to let go."""
