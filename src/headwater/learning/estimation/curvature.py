"""The curvature that gradient noise meets: the noise of some samples, the curvature of others.

The horizon needs sums Σ_k c_k f(λ_k) over the eigenvalues λ_k of the loss's curvature, weighted by
how much of the gradients' variance c_k lies along each eigenvector. With z = Σ_i ε_i (g_i − ḡ)/√n
and random signs ε_i, the squares (zᵀu_k)² are c_k in expectation, and Lanczos' method started at z
(:mod:`headwater.learning.estimation.lanczos`) gives the sums after a few dozen products with the
curvature, without a matrix.

The noise must not be that of the samples whose curvature it meets. A sample's gradient lies where
its own curvature is, and a network has many directions that only one sample of a few hundred knows:
the noise would meet too much curvature, and the model would seem to forget too soon.

The curvature is the Gauss–Newton matrix Jᵀ H J, J the Jacobian of the outputs and H the Hessian of
the loss in the outputs: it has no negative eigenvalues where the loss is convex in the outputs, and
near a minimum it is the Hessian.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import functional_call

from headwater.learning.problem import Problem, chunks
from headwater.ledger.holdings import Counts
from headwater.randomness import Purpose, key

_BATCH = 256
"""Samples in one pass."""


def noise(problem: Problem, parameters: Tensor, samples: Counts, seed: int, probe: int) -> Tensor:
    """z = Σ_i ε_i (g_i − ḡ)/√n at one θ: a backward pass with signs from which their mean is taken.

    Args:
        problem: the model, its loss and the data.
        parameters: θ, a flat vector.
        samples: numbers of the samples, at least one.
        seed: of the signs.
        probe: which of several draws of the signs.
    """
    bits = key(seed, Purpose.ESTIMATE, probe, samples) >> np.uint64(63)
    signs = 2.0 * bits.astype(np.float64) - 1.0
    centred = torch.from_numpy((signs - signs.mean()) / np.sqrt(len(samples)))
    total = torch.zeros_like(parameters)
    for piece in chunks(len(samples), _BATCH):
        theta = parameters.clone().requires_grad_()
        outputs, labels = _outputs(problem, theta, samples[piece])
        losses = problem.loss(outputs, labels)
        value = (losses * centred[piece].to(losses.dtype)).sum()
        total += torch.autograd.grad(value, theta)[0]
    return total


def product(problem: Problem, parameters: Tensor, samples: Counts, vector: Tensor) -> Tensor:
    """Jᵀ H J v at one θ, averaged over samples."""
    total = torch.zeros_like(parameters)
    for piece in chunks(len(samples), _BATCH):
        theta = parameters.clone().requires_grad_()
        outputs, labels, along = _derivative(problem, theta, samples[piece], vector)
        bent = _loss_hessian(problem, outputs.detach(), labels, along)
        total += torch.autograd.grad(outputs, theta, bent)[0]
    return total / len(samples)


def _derivative(
    problem: Problem, theta: Tensor, samples: Counts, vector: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The outputs, the labels, and J v: the derivative of the outputs by θ, along v."""
    try:
        with forward_ad.dual_level():
            outputs, labels = _outputs(problem, forward_ad.make_dual(theta, vector), samples)
            outputs, along = forward_ad.unpack_dual(outputs)
            return outputs, labels, torch.zeros_like(outputs) if along is None else along.detach()
    except (RuntimeError, NotImplementedError):
        # Some modules, LSTMs among them, know no forward mode. J v is also the derivative of uᵀJ v
        # in u, so that two backward passes give it, at twice the cost.
        outputs, labels = _outputs(problem, theta, samples)
        dual = torch.zeros_like(outputs, requires_grad=True)
        (backward,) = torch.autograd.grad(outputs, theta, dual, create_graph=True)
        (along,) = torch.autograd.grad(backward, dual, vector, retain_graph=True)
        return outputs, labels, along


def _loss_hessian(problem: Problem, outputs: Tensor, labels: Tensor, vector: Tensor) -> Tensor:
    """H v: the loss's second derivative in the outputs, along v."""
    outputs.requires_grad_()
    losses = problem.loss(outputs, labels).sum()
    (slope,) = torch.autograd.grad(losses, outputs, create_graph=True)
    if not slope.requires_grad:  # a loss that is linear in the outputs has no curvature
        return torch.zeros_like(vector)
    return torch.autograd.grad(slope, outputs, vector)[0]


def _outputs(problem: Problem, theta: Tensor, samples: Counts) -> tuple[Tensor, Tensor]:
    x, y = problem.take(problem.where(samples))
    return functional_call(problem.model, problem.views(theta), (x,)), y
