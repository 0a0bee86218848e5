"""Where a run is, on the server: Algorithm 1's state in, state out, in NumPy.

    θ(t+1) = proj_Θ( θ(t) + Σ_m p_m(t) (θ_m − θ(t)) ),    θ̄ = Σ_t q(t) θ(t)

The sum runs in double precision, so that the order in which clients answer does not show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headwater.randomness import Floats

Vector = NDArray[Any]


class Projection(Protocol):
    """The nearest allowed point, of a flat vector: ``hw.Ball(10)``, or a function of arrays."""

    def __call__(self, parameters: Any) -> Any:
        """Project."""
        ...


class RefusedUpdate(ValueError):
    """A client's update cannot count."""


@dataclass(frozen=True)
class State:
    """Where a run is.

    Attributes:
        round: rounds done.
        parameters: θ(round + 1), the last iterate.
        average: the q-weighted mean of θ(1) … θ(round).
        weight: Σ q(t) of these rounds.
    """

    round: int
    parameters: Vector
    average: Vector
    weight: float

    @classmethod
    def start(cls, parameters: Vector) -> State:
        """Before the first round."""
        return cls(0, parameters, parameters.copy(), 0.0)

    def after(self, move: Floats, round_share: float, projection: Projection | None) -> State:
        """One round later, by the sum of the clients' moves."""
        weight = self.weight + round_share
        average = self.average + (self.parameters - self.average) * (round_share / weight)
        parameters = (self.parameters + move).astype(self.parameters.dtype)
        if projection is not None:
            parameters = project(projection, parameters)
        kind = self.parameters.dtype
        return State(self.round + 1, parameters, average.astype(kind), weight)


class Moves:
    """Σ_m share_m (θ_m − θ), one client after the other; memory for one model, however many come.

    Args:
        parameters: θ(t), from which the clients set out.
        norm_limit: the longest move that counts; None: any length.
    """

    def __init__(self, parameters: Vector, norm_limit: float | None) -> None:
        self._from = parameters
        self._limit = math.inf if norm_limit is None else norm_limit
        self.total: Floats = np.zeros(len(parameters), np.float64)

    def add(self, local: Vector, share: float) -> None:
        """Count a client's parameters θ_m, or refuse them for a reason."""
        if local.shape != self._from.shape:
            raise RefusedUpdate(f"{local.size:,} parameters; the model has {self._from.size:,}")
        move = np.subtract(local, self._from, dtype=np.float64)
        length = float(np.linalg.norm(move))
        # A move whose square the model's type can hold can be added up for ever without becoming
        # infinite; a longer one, as of a float64 update to a float32 model, could not be undone.
        if not length * length <= float(np.finfo(self._from.dtype).max):
            raise RefusedUpdate("parameters that are not finite, or too large to be added up")
        if length > self._limit:
            raise RefusedUpdate(f"a move of length {length:.4g}; norm_limit is {self._limit:g}")
        move *= share
        self.total += move


def project(projection: Projection, parameters: Vector) -> Vector:
    """Apply a projection that wants a tensor, as the learner's do, or one that takes arrays."""
    module = type(projection).__module__
    if not module.startswith("headwater."):
        return np.asarray(projection(parameters), parameters.dtype)
    import torch  # only runs with a projection pay for it

    return np.asarray(projection(torch.from_numpy(parameters)).numpy(), parameters.dtype)
