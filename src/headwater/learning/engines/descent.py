"""The way down: parameters in one flat vector, and gradients that are added to a target.

A local step adds −η times a gradient to the parameters themselves, a fused pass to the sum of the
clients' moves. Both say so once: ``aim(target)`` gives an object bound to that target, and every
gradient it adds goes there.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from headwater.learning.engines.by_autograd import ByAutograd
from headwater.learning.engines.closed_form import ClosedForm
from headwater.learning.problem import Problem


class Aim(Protocol):
    """Gradients on their way to one target."""

    def add_gradient(self, x: Tensor, y: Tensor, coefficients: Tensor) -> None:
        """target += ∇ Σ_j coefficient_j · ℓ(θ; z_j)."""
        ...


class Descent(Protocol):
    """A model that can be moved, and whose gradients can be added to something."""

    @property
    def vector(self) -> Tensor:
        """The parameters θ; write to it to move the model."""
        ...

    def aim(self, target: Tensor) -> Aim:
        """Where gradients are to be added; it may be the parameters themselves."""
        ...


def descent_of(problem: Problem) -> Descent:
    """The quickest way down: in closed form where that is known, else by autograd."""
    return ClosedForm.of(problem) or ByAutograd(problem)
