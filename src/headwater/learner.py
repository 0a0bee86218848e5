"""Algorithm 1: state in, state out, one round at a time.

    θ(t+1) = proj_Θ( θ(t) + Σ_m p_m(t) (θ_m(t, E+1) − θ(t)) ),    θ̄ = Σ_t q(t) θ(t)

What the clients do in a round is an engine's business; on devices it is the devices'. Nothing here knows where
a client lives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from headwater.engines.engine import Engine
from headwater.errors import InputError
from headwater.projection import Projection
from headwater.work import Work

Rate = float | Callable[[int], float]


class DivergedError(InputError):
    """The parameters are no longer finite."""


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
    parameters: Tensor
    average: Tensor
    weight: float

    @classmethod
    def start(cls, parameters: Tensor) -> State:
        """Before the first round."""
        return cls(0, parameters, parameters.clone(), 0.0)


def step(
    state: State, work: Work, round_share: float, engine: Engine, rate: float, projection: Projection | None = None
) -> tuple[State, float]:
    """One round: the next state, and how far the clients' moves together went (‖Δ‖)."""
    move = engine.moves(state.parameters, work, rate)
    length = float(move.norm())
    if not math.isfinite(length):
        raise DivergedError(
            f"the run diverged in round {work.number}: parameters no longer finite at learning_rate={rate:g}; "
            f"try {rate / 10:g}, or keep the parameters in a projection such as Ball(10)"
        )
    weight = state.weight + round_share
    average = state.average.lerp(state.parameters, round_share / weight)
    parameters = state.parameters + move
    if projection is not None:
        parameters = projection(parameters)
    return State(work.number, parameters, average, weight), length


def rate_at(rate: Rate, round: int) -> float:
    """The learning rate of a round, from a number or a schedule."""
    value = float(rate(round) if callable(rate) else rate)
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"learning_rate: a finite number above 0; got {value} in round {round}")
    return value
