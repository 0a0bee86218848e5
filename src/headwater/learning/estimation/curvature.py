"""The curvature that gradient noise meets, by Lanczos' method on Gauss–Newton products.

The horizon needs sums Σ_k c_k f(λ_k) over the eigenvalues λ_k of the loss's curvature, weighted by
how much of the gradients' variance c_k lies along each eigenvector. Lanczos' method, started at a
vector z, gives a few nodes and weights with Σ_k (zᵀu_k)² f(λ_k) ≈ Σ_j w_j f(ν_j): Gauss's
quadrature for exactly this sum (Golub and Meurant, *Matrices, Moments and Quadrature*, 2010). With
z = Σ_i ε_i (g_i − ḡ)/√n and random signs ε_i, the squares (zᵀu_k)² are c_k in expectation. So a
few dozen products with the curvature, and no matrix, are all it takes.

The curvature is the Gauss–Newton matrix Jᵀ H J, J the Jacobian of the outputs and H the Hessian of
the loss in the outputs: it has no negative eigenvalues where the loss is convex in the outputs, and
near a minimum it is the Hessian.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from headwater.learning.problem import Problem, chunks
from headwater.ledger.holdings import Counts
from headwater.planner.horizon import remembered_rounds
from headwater.randomness import Floats, Purpose, key

_BATCH = 128
"""Samples in one pass."""


@dataclass(frozen=True)
class Spectrum:
    """Nodes ν_j and weights w_j of the gradient noise over the curvature, one row per probe."""

    curvature: Floats
    noise: Floats

    def horizon(self, rate: float, rounds: int) -> tuple[float, float]:
        """τ and its standard error over the probes (infinite for a single probe)."""
        each = [
            remembered_rounds(curvature, noise, rate, rounds)
            for curvature, noise in zip(self.curvature, self.noise, strict=True)
        ]
        # One value from all probes' nodes together; the scatter of the single ones is its error.
        together = remembered_rounds(self.curvature.ravel(), self.noise.ravel(), rate, rounds)
        if len(each) == 1:
            return together, np.inf
        return together, float(np.std(each, ddof=1) / np.sqrt(len(each)))


def spectrum(
    problem: Problem, parameters: Tensor, samples: Counts, probes: int, steps: int, seed: int
) -> Spectrum:
    """Where the noise of these samples' gradients lies in the curvature at one θ.

    Args:
        problem: the model, its loss and the data.
        parameters: θ, a flat vector.
        samples: numbers of the samples to look at.
        probes: random starts; their scatter gives the standard error.
        steps: Lanczos steps per start, each one product with the curvature.
        seed: of the signs.
    """
    nodes = np.zeros((probes, steps))
    weights = np.zeros((probes, steps))
    for probe in range(probes):
        start = _noise(problem, parameters, samples, seed, probe)
        found = _lanczos(lambda v: _product(problem, parameters, samples, v), start, steps)
        nodes[probe, : len(found[0])], weights[probe, : len(found[1])] = found
    return Spectrum(nodes, weights)


def _noise(problem: Problem, parameters: Tensor, samples: Counts, seed: int, probe: int) -> Tensor:
    """Σ_i ε_i (g_i − ḡ)/√n: one backward pass with signs from which their mean is taken."""
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


def _product(problem: Problem, parameters: Tensor, samples: Counts, vector: Tensor) -> Tensor:
    """Jᵀ H J v, averaged over the samples.

    J v is the derivative of uᵀJ v in u, so two backward passes give it: forward-mode
    differentiation would be one pass, but many modules (recurrent ones among them) lack it.
    """
    total = torch.zeros_like(parameters)
    for piece in chunks(len(samples), _BATCH):
        theta = parameters.clone().requires_grad_()
        outputs, labels = _outputs(problem, theta, samples[piece])
        dual = torch.zeros_like(outputs, requires_grad=True)
        (backward,) = torch.autograd.grad(outputs, theta, dual, create_graph=True)
        (along,) = torch.autograd.grad(backward, dual, vector, retain_graph=True)
        bent = _loss_hessian(problem, outputs.detach(), labels, along)
        total += torch.autograd.grad(outputs, theta, bent)[0]
    return total / len(samples)


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


def _lanczos(
    product: Callable[[Tensor], Tensor], start: Tensor, steps: int
) -> tuple[Floats, Floats]:
    """Gauss's nodes and weights for the spectral measure of ``start``.

    All vectors are kept and every new one is made orthogonal to them twice: without that, rounding
    brings eigenvalues in again that have been found already.
    """
    size = float(start.norm())
    if size == 0.0:  # equal gradients: no noise anywhere
        return np.zeros(1), np.zeros(1)
    basis = [start / size]
    diagonal: list[float] = []
    beside: list[float] = []
    for step in range(steps):
        image = product(basis[-1])
        diagonal.append(float(image @ basis[-1]))
        for _ in range(2):
            for vector in basis:
                image -= (image @ vector) * vector
        length = float(image.norm())
        if step == steps - 1 or length <= 1e-6 * max(diagonal):
            break
        beside.append(length)
        basis.append(image / length)
    tridiagonal = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    nodes, vectors = np.linalg.eigh(tridiagonal)
    return np.maximum(nodes, 0.0), size**2 * vectors[0] ** 2
