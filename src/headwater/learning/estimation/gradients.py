"""Per-sample gradients of any module, each reduced to a few numbers as soon as it is there.

A gradient is as large as the model, so no more of them are held than fit into a fixed amount of
memory. Small models' gradients are computed many at once (torch.func.vmap); those of large models
one after the other, which is also faster there: the batched form of a large linear layer's gradient
is slower than a loop over the samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, grad_and_value, vmap

from headwater.learning.engines.loop import gradient
from headwater.learning.problem import Problem, chunks
from headwater.ledger.holdings import Counts
from headwater.randomness import Floats

_ELEMENTS = 1 << 22
"""Numbers in the gradients that are held at once."""

_WORTHWHILE = 16
"""Samples that must fit into memory together for a batch to be worth it."""

_BATCH = 256
"""Samples in a pass that needs no per-sample gradients."""


@dataclass(frozen=True)
class PerSample:
    """What is kept of the gradients g_i = ∇ℓ(θ; z_i) at one θ: one number per sample.

    Attributes:
        loss: ℓ(θ; z_i).
        norm: ‖g_i‖.
        deviation: ‖g_i − ḡ‖², ḡ the mean of the g_i.
    """

    loss: Floats
    norm: Floats
    deviation: Floats


def per_sample(problem: Problem, parameters: Tensor, samples: Counts) -> PerSample:
    """Loss, gradient norm and squared deviation from the mean gradient of each sample, at one θ.

    >>> line, x = torch.nn.Linear(1, 1, bias=False), torch.tensor([[1.0], [3.0]])
    >>> problem = Problem(line, x, torch.zeros(2),
    ...                   loss=lambda output, target: output.flatten())
    >>> per_sample(problem, torch.ones(1), np.arange(2))
    PerSample(loss=array([1., 3.]), norm=array([1., 3.]), deviation=array([1., 1.]))
    """
    centre = mean_gradient(problem, parameters, samples)
    room = _ELEMENTS // problem.size
    rows = None
    if room >= _WORTHWHILE:
        rows = _batched(problem, parameters, centre, samples, min(room, _BATCH))
    if rows is None:
        rows = [
            _single(problem, parameters, centre, samples[k : k + 1]) for k in range(len(samples))
        ]
    loss, square, deviation = np.concatenate(rows, axis=1)
    return PerSample(loss, np.sqrt(square), deviation)


def mean_gradient(problem: Problem, parameters: Tensor, samples: Counts) -> Tensor:
    """ḡ, the mean of the samples' gradients, as a flat vector."""
    weights = np.full(len(samples), 1 / len(samples))
    total = torch.zeros_like(parameters)
    for piece in chunks(len(samples), _BATCH):
        total += gradient(problem, parameters, samples[piece], weights[piece])
    return total


def losses(problem: Problem, parameters: Tensor, samples: Counts) -> Floats:
    """ℓ(θ; z_i) of each of these samples."""
    found = []
    with torch.no_grad():
        for piece in chunks(len(samples), _BATCH):
            x, y = problem.take(problem.where(samples[piece]))
            found.append(
                problem.loss(functional_call(problem.model, problem.views(parameters), (x,)), y)
            )
    return np.asarray(torch.cat(found).double().numpy())


def _batched(
    problem: Problem, parameters: Tensor, centre: Tensor, samples: Counts, size: int
) -> Sequence[Floats] | None:
    """Many samples at once; None if the module cannot be batched so (nn.RNN, say)."""
    named, means = problem.views(parameters), problem.views(centre)

    def objective(named: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return problem.loss(functional_call(problem.model, named, (x[None],)), y[None])[0]

    def reduced(x: Tensor, y: Tensor) -> Tensor:
        found, loss = grad_and_value(objective)(named, x, y)
        return _reduce(loss, [(found[name], means[name]) for name in named])

    rows = []
    for piece in chunks(len(samples), size):
        try:
            rows.append(
                vmap(reduced)(*problem.take(problem.where(samples[piece]))).double().numpy().T
            )
        except (RuntimeError, NotImplementedError, ValueError):
            return None  # what torch.func raises differs from case to case
    return rows


def _single(problem: Problem, parameters: Tensor, centre: Tensor, sample: Counts) -> Floats:
    named = {name: p.detach().requires_grad_() for name, p in problem.views(parameters).items()}
    x, y = problem.take(problem.where(sample))
    loss = problem.loss(functional_call(problem.model, named, (x,)), y)[0]
    found = torch.autograd.grad(
        loss, list(named.values()), allow_unused=True, materialize_grads=True
    )
    pairs = list(zip(found, problem.views(centre).values(), strict=True))
    return np.asarray(_reduce(loss.detach(), pairs).double().numpy()[:, None])


def _reduce(loss: Tensor, pairs: list[tuple[Tensor, Tensor]]) -> Tensor:
    """(ℓ, ‖g‖², ‖g − ḡ‖²)."""
    square = sum((g.square().sum() for g, _ in pairs), torch.zeros(()))
    deviation = sum(((g - mean).square().sum() for g, mean in pairs), torch.zeros(()))
    return torch.stack([loss.to(square.dtype), square, deviation.to(square.dtype)])
