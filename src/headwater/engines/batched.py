"""Many clients' tiny models at once: a client is a row, a local step is one batched gradient (torch.func.vmap)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from headwater.problem import Problem
from headwater.work import Work

_ELEMENTS = 1 << 22  # of features and parameters that are in memory at once


class Batched:
    """All clients step together, each on its own copy of the parameters."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._gradients = vmap(grad(self._objective))

    def _objective(self, vector: Tensor, x: Tensor, y: Tensor, coefficients: Tensor) -> Tensor:
        losses = self.problem.loss(functional_call(self.problem.model, self.problem.views(vector), (x,)), y)
        return (losses * coefficients).sum()

    def moves(self, parameters: Tensor, work: Work, learning_rate: float) -> Tensor:
        """Σ_m p_m(t) (θ_m(t, E+1) − θ(t)), group by group."""
        total = torch.zeros_like(parameters)
        sizes = np.diff(work.offsets)
        by_size = np.argsort(sizes, kind="stable")  # neighbours have similar batches: little padding
        start = 0
        while start < len(by_size):
            group = by_size[start : start + self._room(sizes[by_size[start:]])]
            total += self._group(parameters, work, group, learning_rate)
            start += len(group)
        return total

    def _room(self, sizes: np.ndarray) -> int:
        """How many of the next clients fit into memory together (sizes ascend)."""
        each = self.problem.size * 4 + sizes * self.problem.x[0].numel()
        return max(1, int(np.searchsorted(each * np.arange(1, len(each) + 1), _ELEMENTS, side="right")))

    def _group(self, parameters: Tensor, work: Work, group: np.ndarray, learning_rate: float) -> Tensor:
        sizes = np.diff(work.offsets)[group]
        place = np.arange(sizes.max())
        columns = work.offsets[group][:, None] + np.minimum(place, sizes[:, None] - 1)
        real = torch.from_numpy(place < sizes[:, None]).to(parameters.dtype)
        local = parameters.expand(len(group), -1).clone()
        for samples, coefficients in zip(work.samples, work.coefficients, strict=True):
            x, y = self.problem.take(self.problem.where(samples[columns].ravel()))
            weights = torch.from_numpy(coefficients[columns]).to(parameters.dtype) * real
            shape = columns.shape
            local -= learning_rate * self._gradients(local, x.unflatten(0, shape), y.unflatten(0, shape), weights)
        return torch.from_numpy(work.shares[group]).to(parameters.dtype) @ (local - parameters)

    def close(self) -> None:
        """Nothing to let go."""
