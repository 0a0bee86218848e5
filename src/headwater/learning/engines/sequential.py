"""One client after the other, in place on one flat vector: memory is O(model)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from headwater.learning.engines.descent import Aim, descent_of
from headwater.learning.problem import Problem
from headwater.ledger.orders import Orders


class Sequential:
    """The loop without its copies: local steps move the parameters themselves."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._descent = descent_of(problem)
        self._local = self._descent.vector
        self._step = self._descent.aim(self._local)
        self._gradient = torch.zeros_like(self._local if problem.local.pieces else self._local[:0])
        self._to_gradient = self._descent.aim(self._gradient) if problem.local.pieces else None

    def moves(self, parameters: Tensor, orders: Orders, learning_rate: float) -> Tensor:
        """Σ_m p_m(t) (θ_m(t, E+1) − θ(t)) = Σ_m p_m(t) θ_m(t, E+1) − θ(t) Σ_m p_m(t)."""
        total = parameters * -float(orders.shares.sum())
        for k, share in enumerate(orders.shares):
            self._local.copy_(parameters)
            if self._to_gradient is None:
                self._local_steps(orders, k, learning_rate)
            else:
                self._optimiser_steps(orders, k, learning_rate, parameters, self._to_gradient)
            total.add_(self._local, alpha=float(share))
        return total

    def _local_steps(self, orders: Orders, k: int, learning_rate: float) -> None:
        """θ ← θ − η ∇ Σ_j coefficient_j · ℓ(θ; z_j), E times."""
        mine = slice(orders.offsets[k], orders.offsets[k + 1])
        scaled = np.multiply(orders.coefficients[:, mine], -learning_rate)
        coefficients = self.problem.numbers(scaled, self._local.dtype)
        for step in range(len(orders.samples)):
            self.problem.reseed(orders.number, int(orders.clients[k]), step)
            x, y = self.problem.take(self.problem.where(orders.samples[step, mine]))
            self._step.add_gradient(x, y, coefficients[step])

    def _optimiser_steps(
        self, orders: Orders, k: int, rate: float, anchor: Tensor, aim: Aim
    ) -> None:
        """The same with a local optimiser, which needs the gradient by itself."""
        mine = slice(orders.offsets[k], orders.offsets[k + 1])
        held = np.array(orders.coefficients[:, mine])
        coefficients = self.problem.numbers(held, self._local.dtype)
        memory = self.problem.local.start(anchor)
        for step in range(len(orders.samples)):
            self.problem.reseed(orders.number, int(orders.clients[k]), step)
            x, y = self.problem.take(self.problem.where(orders.samples[step, mine]))
            self._gradient.zero_()
            aim.add_gradient(x, y, coefficients[step])
            direction, memory = self.problem.local(
                self._gradient, self._local, anchor, memory, step + 1
            )
            self._local.add_(direction, alpha=-rate)

    def close(self) -> None:
        """Nothing to let go."""
