"""The right answer of one round, in double precision, and how far a contender's is from it."""

from dataclasses import dataclass

import numpy as np
import torch

from benchmarks import networks
from benchmarks.workloads import Array, Job

# Single precision agrees to 1e-6 on smooth losses. Where a ReLU's input is zero to within rounding, one
# contender passes the gradient and another does not: with the convolutional network that moves the outcome by
# up to 0.5 %. A client forgotten, a wrong weight or batch moves it by more than 1 %.
TOLERANCE = 0.01


@dataclass(frozen=True)
class Reference:
    """First weights and the right weights after one round, as one vector each."""

    first: Array
    right: Array

    def error(self, weights: list[Array]) -> float:
        """Distance from the right weights, in units of the distance that the round moves them."""
        distance = np.linalg.norm(flat(weights) - self.right)
        return float(distance / np.linalg.norm(self.right - self.first))


def flat(weights: list[Array]) -> Array:
    """One vector of double precision."""
    return np.concatenate([np.asarray(w, dtype=np.float64).ravel() for w in weights])


def one_round(job: Job) -> Reference:
    """Every client's local steps one after the other, the weighted mean of their models: the definition."""
    workload = job.workload
    model, loss = networks.load(workload.network, [torch.from_numpy(w) for w in job.weights])
    parameters = list(model.double().parameters())
    first = [p.detach().clone() for p in parameters]
    mean = [torch.zeros_like(p) for p in first]
    for client in range(workload.clients):
        torch._foreach_copy_([p.data for p in parameters], first)
        for step in range(workload.steps):
            rows = workload.rows(client, step)
            gradients = torch.autograd.grad(
                loss(model(doubled(job.x[rows])), torch.from_numpy(job.y[rows])), parameters
            )
            torch._foreach_add_([p.data for p in parameters], list(gradients), alpha=-workload.learning_rate)
        torch._foreach_add_(mean, [p.data for p in parameters], alpha=1 / workload.clients)
    return Reference(flat([w.numpy() for w in first]), flat([w.numpy() for w in mean]))


def doubled(rows: Array) -> torch.Tensor:
    """Features in double precision; characters stay what they are."""
    tensor = torch.from_numpy(rows)
    return tensor.double() if tensor.is_floating_point() else tensor
