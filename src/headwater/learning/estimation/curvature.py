"""The curvature that gradient noise meets: the noise of some samples, the curvature of others.

The horizon needs sums Σ_k c_k λ_k f(λ_k) over the eigenvalues λ_k of the loss's curvature, c_k
being how much of the gradients' variance lies along each eigenvector. With z = Σ_i ε_i g_i/√n and
random signs ε_i, half of them +1 and half −1, the squares (zᵀu_k)² are c_k in expectation, and
Lanczos' method started at z (:mod:`headwater.learning.estimation.lanczos`) gives the sums after a
few dozen products with the curvature, without a matrix.

The noise should not be that of the samples whose curvature it meets: a sample's gradient lies where
its own curvature is, so that zᵀGz would be too large on average. Of other samples it is right.

The curvature is the Gauss–Newton matrix Jᵀ H J, J the Jacobian of the outputs and H the Hessian of
the loss in the outputs: it has no negative eigenvalues where the loss is convex in the outputs, and
near a minimum it is the Hessian. A part of the loss that stands in the model (a LogSoftmax as its
last layer) is not seen.
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

_TRIED = 4
"""Samples on which the two ways to a derivative are compared."""


def noise(problem: Problem, parameters: Tensor, samples: Counts, seed: int, probe: int) -> Tensor:
    """z = Σ_i ε_i g_i/√n at one θ, the ε_i random signs of which as many are +1 as −1.

    With an odd number of samples their mean is taken from the signs. A single one gives 0.

    Args:
        problem: the model, its loss and the data.
        parameters: θ, a flat vector.
        samples: numbers of the samples.
        seed: of the signs.
        probe: which of several draws of the signs.
    """
    count = max(1, len(samples))
    signs = np.ones(len(samples))
    order = np.argsort(key(seed, Purpose.ESTIMATE, probe, samples), kind="stable")
    signs[order[: count // 2]] = -1.0
    centred = torch.from_numpy((signs - signs.sum() / count) / count**0.5)
    total = torch.zeros_like(parameters)
    for piece in chunks(len(samples), _BATCH):
        theta = parameters.clone().requires_grad_()
        outputs, labels = _outputs(problem, theta, samples[piece])
        losses = problem.loss(outputs, labels)
        value = (losses * centred[piece].to(losses.dtype)).sum()
        total += torch.autograd.grad(value, theta)[0]
    return total


class Curvature:
    """Jᵀ H J at one θ, averaged over samples; called with a vector, it gives the product.

    J v comes from forward-mode differentiation. Some modules know none (LSTMs), and it sees through
    ``torch.no_grad``, which a model may use on purpose; so both ways are tried on a few samples,
    and where they do not agree J v is the derivative of uᵀJ v in u: two backward passes.
    """

    def __init__(self, problem: Problem, parameters: Tensor, samples: Counts) -> None:
        self._problem = problem
        self._parameters = parameters
        self._samples = samples
        self._forward_mode = self._ways_agree()

    def __call__(self, vector: Tensor) -> Tensor:
        """Jᵀ H J v."""
        total = torch.zeros_like(self._parameters)
        for piece in chunks(len(self._samples), _BATCH):
            total += self._sum(self._samples[piece], vector)
        return total / len(self._samples)

    def _sum(self, samples: Counts, vector: Tensor) -> Tensor:
        theta = self._parameters.clone().requires_grad_()
        outputs, labels = _outputs(self._problem, theta, samples)
        if self._forward_mode:
            along = _forwards(self._problem, self._parameters, samples, vector)
        else:
            along = _backwards(outputs, theta, vector)
        bent = _loss_hessian(self._problem, outputs.detach(), labels, along)
        return torch.autograd.grad(outputs, theta, bent)[0]

    def _ways_agree(self) -> bool:
        few = self._samples[:_TRIED]
        if len(few) == 0:
            return False
        theta = self._parameters.clone().requires_grad_()
        vector = torch.cos(torch.arange(len(theta), dtype=theta.dtype, device=theta.device))
        other = _backwards(_outputs(self._problem, theta, few)[0], theta, vector)
        try:
            one = _forwards(self._problem, self._parameters, few, vector)
        except (RuntimeError, NotImplementedError):  # no forward mode; what is raised differs
            return False
        return bool((one - other).norm() <= 1e-3 * other.norm())


def _forwards(problem: Problem, parameters: Tensor, samples: Counts, vector: Tensor) -> Tensor:
    """J v, in a pass of its own."""
    with forward_ad.dual_level():
        outputs, _ = _outputs(problem, forward_ad.make_dual(parameters, vector), samples)
        outputs, along = forward_ad.unpack_dual(outputs)
        return torch.zeros_like(outputs) if along is None else along.detach()


def _backwards(outputs: Tensor, theta: Tensor, vector: Tensor) -> Tensor:
    """J v, as the derivative of uᵀJ v in u."""
    dual = torch.zeros_like(outputs, requires_grad=True)
    (backward,) = torch.autograd.grad(outputs, theta, dual, create_graph=True)
    return torch.autograd.grad(backward, dual, vector, retain_graph=True)[0]


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
