"""Logistic regression without autograd: the gradient of a linear model's cross-entropy is known.

With logits z = W x + b, dℓ/dz is softmax(z) less the label's indicator; with one logit, sigmoid(z)
− y. For a model of a few dozen parameters, building and walking autograd's graph would take most of
a round.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwater.learning.engines.descent import Descent
from headwater.learning.losses import cross_entropy
from headwater.learning.problem import Problem


class ClosedForm:
    """A linear model and cross-entropy, with the two names of
    :class:`~headwater.learning.engines.descent.Descent`."""

    def __init__(self, problem: Problem) -> None:
        self.vector = problem.initial()
        self._problem = problem
        self._own = problem.views(self.vector)
        self._goal: Tensor | None = None
        self._targets: dict[str, Tensor] = {}

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Is the model one linear layer, all of it learned, and the loss cross-entropy with whole
        labels?"""
        model = problem.model
        whole = problem.y.dtype == torch.int64 and problem.y.ndim == 1 and problem.x.ndim == 2
        plain = type(model) is nn.Linear and not (model._forward_hooks or model._forward_pre_hooks)
        return (
            plain
            and whole
            and problem.loss is cross_entropy
            and all(p.requires_grad for p in model.parameters())
        )

    def add_gradient(
        self, x: Tensor, y: Tensor, coefficients: Tensor, scale: float, target: Tensor
    ) -> None:
        """target += scale · ∇ Σ_j coefficient_j · ℓ(θ; z_j); the target may be the parameters
        themselves."""
        if target is not self._goal:
            self._goal, self._targets = target, self._problem.views(target)
        g = _residual(functional.linear(x, self._own["weight"], self._own.get("bias")), y)
        g.mul_(coefficients[:, None])
        self._targets["weight"].addmm_(g.T, x, alpha=scale)
        if "bias" in self._targets:
            self._targets["bias"].add_(g.sum(0), alpha=scale)


def _residual(logits: Tensor, y: Tensor) -> Tensor:
    """dℓ/dz for every sample."""
    if logits.shape[1] == 1:
        return logits.sigmoid_().sub_(y[:, None])
    g = logits.softmax(1)
    return g.scatter_add_(1, y[:, None], g.new_full((len(y), 1), -1.0))


def descent_of(problem: Problem) -> Descent | ClosedForm:
    """The quickest way down."""
    return ClosedForm(problem) if ClosedForm.fits(problem) else Descent(problem)
