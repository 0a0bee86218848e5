"""The plain loop: lines 3–13 of Algorithm 1 as written.

It is the specification that the other engines are tested against.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call

from headwater.learning.problem import Problem
from headwater.ledger.orders import Orders
from headwater.randomness import Floats


class Loop:
    """One client after the other, one step after the other."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def moves(self, parameters: Tensor, orders: Orders, learning_rate: float) -> Tensor:
        """Σ_m p_m(t) (θ_m(t, E+1) − θ(t))."""
        total = torch.zeros_like(parameters)
        for k, (client, share) in enumerate(zip(orders.clients, orders.shares, strict=True)):
            mine = slice(orders.offsets[k], orders.offsets[k + 1])
            local, memory = parameters, self.problem.local.start(parameters)
            for step in range(len(orders.samples)):
                self.problem.reseed(orders.number, int(client), step)
                g = gradient(
                    self.problem, local, orders.samples[step, mine], orders.coefficients[step, mine]
                )
                g, memory = self.problem.local(g, local, parameters, memory, step + 1)
                local = local - learning_rate * g
            total += share * (local - parameters)
        return total

    def close(self) -> None:
        """Nothing to let go."""


def gradient(
    problem: Problem, parameters: Tensor, samples: NDArray[np.int64], coefficients: Floats
) -> Tensor:
    """∇ Σ_j coefficient_j · ℓ(θ; z_j) at θ = parameters, as a flat vector."""
    x, y = problem.take(problem.where(samples))
    leaf = parameters.detach().requires_grad_()
    losses = problem.loss(functional_call(problem.model, problem.views(leaf), (x,)), y)
    weights = problem.numbers(np.array(coefficients), losses.dtype)
    objective = (losses * weights).sum()
    return torch.autograd.grad(objective, leaf)[0]
