"""The right answer of one round, in double precision: every client's local steps, the mean of their
models."""

from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.harness import networks
from benchmarks.harness.jobs import Array, Job


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


def one_round(job: Job, weights: list[Array], batches: Array, shares: Array) -> Reference:
    """The definition, step by step; ``batches`` has the row numbers of every client's every local
    step."""
    torch.set_num_threads(
        1
    )  # threads that wait for each other cost more than they bring on tiny models
    model, loss = networks.load(job.workload.network, [torch.from_numpy(w) for w in weights])
    parameters = list(model.double().parameters())
    local = [p.data for p in parameters]
    first = [p.clone() for p in local]
    mean = [torch.zeros_like(p) for p in first]
    for client, share in zip(batches, shares.tolist(), strict=True):
        torch._foreach_copy_(local, first)
        for rows in client:
            objective = loss(model(features(job.x[rows])), torch.from_numpy(job.y[rows]))
            gradients = list(torch.autograd.grad(objective, parameters))
            torch._foreach_add_(local, gradients, alpha=-job.workload.learning_rate)
        torch._foreach_add_(mean, local, alpha=share)
    return Reference(flat([w.numpy() for w in first]), flat([w.numpy() for w in mean]))


def features(rows: Array) -> torch.Tensor:
    """In double precision; characters stay what they are."""
    tensor = torch.from_numpy(rows)
    return tensor.double() if tensor.is_floating_point() else tensor
