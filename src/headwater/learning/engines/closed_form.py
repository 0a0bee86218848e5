"""Logistic regression without autograd: the gradient of a linear model's cross-entropy is known.

With logits z = W x + b, dℓ/dz is softmax(z) less the label's indicator; with one logit, sigmoid(z)
− y. For a model of a few dozen parameters, building and walking autograd's graph would take most of
a round.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from headwater.learning.engines.one_linear import one_linear
from headwater.learning.losses import cross_entropy
from headwater.learning.problem import Problem


class ClosedForm:
    """A linear model and cross-entropy, with the two names of
    :class:`~headwater.learning.engines.descent.Descent`.

    Attributes:
        vector: the parameters θ.
    """

    def __init__(self, problem: Problem, prefix: str) -> None:
        self.vector = problem.initial().clone()
        self._problem = problem
        self._weight_name = f"{prefix}weight"
        self._bias_name = f"{prefix}bias"
        own = problem.views(self.vector)
        self._weight = own[self._weight_name]
        self._bias = own.get(self._bias_name)

    @classmethod
    def of(cls, problem: Problem) -> ClosedForm | None:
        """For one linear layer with cross-entropy and whole labels; None: it is something else."""
        whole = problem.y.dtype == torch.int64 and problem.y.ndim == 1
        if not whole or problem.loss is not cross_entropy:
            return None
        prefix = one_linear(problem)
        return None if prefix is None else cls(problem, prefix)

    def aim(self, target: Tensor) -> _Aim:
        """Add gradients to this target."""
        targets = self._problem.views(target)
        return _Aim(self, targets[self._weight_name], targets.get(self._bias_name))

    def _residual(self, x: Tensor, y: Tensor) -> Tensor:
        """dℓ/dz for every sample."""
        logits = functional.linear(x, self._weight, self._bias)
        if logits.shape[1] == 1:
            return logits.sigmoid_().sub_(y[:, None])
        g = logits.softmax(1)
        return g.scatter_add_(1, y[:, None], g.new_full((len(y), 1), -1.0))


class _Aim:
    """The gradients of a linear model, with one target."""

    def __init__(self, model: ClosedForm, weight: Tensor, bias: Tensor | None) -> None:
        self._model = model
        self._weight = weight
        self._bias = bias

    def add_gradient(self, x: Tensor, y: Tensor, coefficients: Tensor) -> None:
        """target += ∇ Σ_j coefficient_j · ℓ(θ; z_j)."""
        x = x.flatten(1)
        g = self._model._residual(x, y)
        g.mul_(coefficients[:, None])
        self._weight.addmm_(g.T, x)
        if self._bias is not None:
            self._bias.add_(g.sum(0))
