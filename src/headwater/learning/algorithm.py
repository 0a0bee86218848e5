"""Algorithm 1: state in, state out, one round at a time.

    θ(t+1) = proj_Θ( θ(t) + Σ_m p_m(t) (θ_m(t, E+1) − θ(t)) ),    θ̄ = Σ_t q(t) θ(t)

What the clients do in a round is an engine's business; on devices it is the devices'. Nothing here
knows where a client lives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from headwater.errors import InputError
from headwater.learning.engines.engine import Engine
from headwater.learning.projection import Projection
from headwater.ledger.ledger import Ledger
from headwater.ledger.orders import LocalWork, Orders

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


@dataclass(frozen=True)
class Record:
    """What happened in a round.

    Attributes:
        round: t.
        learning_rate: η.
        share: q(t).
        clients: how many took part.
        samples: how many gradients were computed.
        move: ‖θ(t+1) − θ(t)‖ before the projection.
        accuracy, loss: of θ(t+1), averaged over clients; None in rounds without a test.
    """

    round: int
    learning_rate: float
    share: float
    clients: int
    samples: int
    move: float
    accuracy: float | None = None
    loss: float | None = None


def learn(
    state: State,
    ledger: Ledger,
    local_work: LocalWork,
    engine: Engine,
    rates: Sequence[float],
    projection: Projection | None = None,
) -> Iterator[tuple[State, Record]]:
    """The rounds after ``state``, one by one, to the ledger's last."""
    for orders in local_work.follow(ledger, state.round + 1):
        rate, share = rates[orders.number - 1], float(ledger.round_shares[orders.number - 1])
        state, move = step(state, orders, share, engine, rate, projection)
        yield (
            state,
            Record(orders.number, rate, share, len(orders.clients), orders.samples.size, move),
        )


def step(
    state: State,
    orders: Orders,
    round_share: float,
    engine: Engine,
    rate: float,
    projection: Projection | None = None,
) -> tuple[State, float]:
    """One round: the next state, and how far the clients' moves together went (‖Δ‖)."""
    move = engine.moves(state.parameters, orders, rate)
    length = float(move.norm())
    if not math.isfinite(length):
        raise DivergedError(
            f"the run diverged in round {orders.number}: parameters no longer finite at "
            f"learning_rate={rate:g}; "
            f"try {rate / 10:g}, or keep the parameters in a projection such as Ball(10)"
        )
    weight = state.weight + round_share
    average = state.average.lerp(state.parameters, round_share / weight)
    parameters = state.parameters + move
    if projection is not None:
        parameters = projection(parameters)
    return State(orders.number, parameters, average, weight), length


def schedule(rate: Rate, rounds: int) -> list[float]:
    """The learning rate of every round, from a number or a function of the round (from 1).

    >>> schedule(lambda round: 0.5 / round, 2)
    [0.5, 0.25]
    """
    try:
        values = [float(rate(t) if callable(rate) else rate) for t in range(1, rounds + 1)]
    except (TypeError, ValueError) as error:
        raise InputError(
            f"learning_rate: a number, or a function of the round that gives one ({error})"
        ) from error
    for t, value in enumerate(values, 1):
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"learning_rate: a finite number above 0; got {value} in round {t}")
    return values
