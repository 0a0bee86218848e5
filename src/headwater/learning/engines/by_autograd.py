"""Gradients by autograd, added straight to where they are wanted.

In SGD a gradient is formed only to be added to something: to the parameters (a local step) or to
the sum of the clients' moves (one fused pass). For large linear layers it need not be formed at
all: the matrix product of the backward pass can end in the target, ``target.addmm_(gᵀ, x)``. That
saves writing and reading a matrix as large as the weights at every step. The other layers'
gradients come from autograd and are added afterwards.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headwater.learning.engines.flat import FlatModel
from headwater.learning.engines.products import add_times
from headwater.learning.engines.redirect import redirect
from headwater.learning.engines.redirectable import redirectable
from headwater.learning.problem import Problem

_NARROW = 16
"""Columns of x; with fewer, MKL takes up to ten times as long for gᵀx as for xᵀg."""


class ByAutograd:
    """Any model, with the two names of :class:`~headwater.learning.engines.descent.Descent`."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._flat = FlatModel(problem)
        self._products = _Products()
        layers = redirectable(self._flat, problem)
        redirect(layers, self._products.add)
        unformed = {id(p) for layer in layers.values() for p in layer.parameters()}
        self._formed = {
            name: p for name, p in self._flat.parameters.items() if id(p) not in unformed
        }

    @property
    def vector(self) -> Tensor:
        """The parameters θ."""
        return self._flat.vector

    def aim(self, target: Tensor) -> _Aim:
        """Add gradients to this target."""
        return _Aim(self, self._problem.views(target))

    def _add_gradient(
        self, x: Tensor, y: Tensor, coefficients: Tensor, targets: dict[str, Tensor]
    ) -> None:
        self._products.targets = targets
        losses = self._problem.loss(self._flat.model(x), y)
        # As one number: given a vector, PyTorch would load its algebra of shapes to check it.
        (losses @ coefficients.to(losses.dtype)).backward()
        gradients = {name: p.grad for name, p in self._formed.items() if p.grad is not None}
        if gradients:
            torch._foreach_add_([targets[name] for name in gradients], list(gradients.values()))
        for p in self._formed.values():
            p.grad = None


class _Aim:
    """The gradients of a descent, with one target."""

    def __init__(self, descent: ByAutograd, targets: dict[str, Tensor]) -> None:
        self._descent = descent
        self._targets = targets

    def add_gradient(self, x: Tensor, y: Tensor, coefficients: Tensor) -> None:
        """target += ∇ Σ_j coefficient_j · ℓ(θ; z_j)."""
        self._descent._add_gradient(x, y, coefficients, self._targets)


class _Products:
    """Where the products of redirected layers end during a backward pass."""

    def __init__(self) -> None:
        self.targets: dict[str, Tensor] = {}

    def add(self, name: str, g: Tensor, x: Tensor | None) -> None:
        """Add gᵀ x (without an x: the sum of g) to the named parameter's target."""
        if x is None:
            self.targets[name].add_(g.sum(0))
        elif x.shape[1] < _NARROW:
            self.targets[name].add_((x.T @ g).T)
        else:
            add_times(self.targets[name], g, x)
