"""Projections on the set Θ of allowed parameters (line 14 of Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from headwater.errors import InputError
from headwater.learning.settings import number


class Projection(Protocol):
    """The nearest allowed point."""

    def __call__(self, parameters: Tensor) -> Tensor:
        """Project a flat vector of all parameters."""
        ...


@dataclass(frozen=True)
class Ball:
    """Θ = {θ : ‖θ‖ ≤ radius}, diameter D = 2·radius.

    >>> import torch
    >>> Ball(1.0)(torch.tensor([3.0, 4.0]))
    tensor([0.6000, 0.8000])
    """

    radius: float

    def __post_init__(self) -> None:
        if number("Ball(radius)", self.radius, "a number above 0") <= 0:
            raise InputError(f"Ball(radius): a number above 0; got {self.radius!r}")

    def __call__(self, parameters: Tensor) -> Tensor:
        """θ · min(1, radius / ‖θ‖)."""
        norm = float(parameters.norm())
        return parameters * (self.radius / norm) if norm > self.radius else parameters


@dataclass(frozen=True)
class Box:
    """Θ = [low, high]^d.

    >>> import torch
    >>> Box(-1, 1)(torch.tensor([3.0, 0.5]))
    tensor([1.0000, 0.5000])
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if number("Box(low)", self.low) >= number("Box(high)", self.high):
            raise InputError(f"Box(low, high): low below high; got {self.low!r}, {self.high!r}")

    def __call__(self, parameters: Tensor) -> Tensor:
        """Clip every coordinate."""
        return parameters.clamp(self.low, self.high)
