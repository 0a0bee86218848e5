"""Algorithm 1: state in, state out, one round at a time.

    θ(t+1) = proj_Θ( θ(t) + Σ_m p_m(t) (θ_m(t, E+1) − θ(t)) ),    θ̄ = Σ_t q(t) θ(t)

What the clients do in a round is an engine's business; on devices it is the devices'. Nothing here
knows where a client lives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from headwater.errors import InputError
from headwater.learning.engines.engine import Engine
from headwater.learning.optimisers import Memory, Server
from headwater.learning.projection import Projection
from headwater.learning.settings import number
from headwater.ledger.orders import LocalWork, Orders
from headwater.ledger.rounds import Rounds

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
        memory: what the server's optimiser remembers; empty for Algorithm 1 as it is.
    """

    round: int
    parameters: Tensor
    average: Tensor
    weight: float
    memory: Memory = ()

    @classmethod
    def start(cls, parameters: Tensor) -> State:
        """Before the first round."""
        return cls(0, parameters, parameters, 0.0)

    def on(self, device: torch.device) -> State:
        """The same on a device."""
        return State(
            self.round,
            self.parameters.to(device),
            self.average.to(device),
            self.weight,
            tuple(part.to(device) for part in self.memory),
        )


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
        loss: test loss of θ(t+1), averaged over clients; None in rounds without a test.
        metrics: each metric's name and its value, averaged over clients; empty without a test.
        worst: the same for the worst tenth of the clients, by each metric and by the loss.
        failed: for how many clients the test gave NaN or infinity.
        arrived: how many samples were tested as they arrived, by θ(t).
        prequential: their mean loss and metrics; empty unless asked for.
    """

    round: int
    learning_rate: float
    share: float
    clients: int
    samples: int
    move: float
    loss: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    worst: dict[str, float] = field(default_factory=dict)
    failed: int = 0
    arrived: int = 0
    prequential: dict[str, float] = field(default_factory=dict)

    @property
    def accuracy(self) -> float | None:
        """Test accuracy averaged over clients; None without a test, or where it is no metric."""
        return self.metrics.get("accuracy")

    def value(self, name: str) -> float:
        """The loss or a metric by its name; NaN if there was no test."""
        found = self.loss if name == "loss" else self.metrics.get(name)
        return math.nan if found is None else found

    def flat(self) -> dict[str, float]:
        """All numbers by name, as one row of a table; without a test, without its columns."""
        row: dict[str, float] = {
            "round": self.round,
            "learning_rate": self.learning_rate,
            "share": self.share,
            "clients": self.clients,
            "samples": self.samples,
            "move": self.move,
        }
        if self.loss is not None:
            row |= {"loss": self.loss, **self.metrics, "failed": self.failed}
            row |= {f"worst_{name}": value for name, value in self.worst.items()}
        if self.arrived:
            row["arrived"] = self.arrived
        row |= {f"prequential_{name}": value for name, value in self.prequential.items()}
        return row

    @property
    def tested(self) -> bool:
        """Was the model tested after this round?"""
        return self.loss is not None


def learn(
    state: State,
    ledger: Rounds,
    local_work: LocalWork,
    engine: Engine,
    rates: Sequence[float],
    projection: Projection | None = None,
    server: Server | None = None,
) -> Iterator[tuple[State, Record]]:
    """The rounds after ``state``, one by one, to the ledger's last."""
    for orders in local_work.follow(ledger, state.round + 1):
        rate, share = rates[orders.number - 1], float(ledger.round_shares[orders.number - 1])
        state, move = step(state, orders, share, engine, rate, projection, server)
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
    server: Server | None = None,
) -> tuple[State, float]:
    """One round: the next state, and how far the model went in it before the projection."""
    move = engine.moves(state.parameters, orders, rate)
    # One number tells whether any of millions is NaN or infinite, and is worth recording anyway.
    length = float(move.norm())
    if not math.isfinite(length):
        raise DivergedError(
            f"the run diverged in round {orders.number}: parameters no longer finite at "
            f"learning_rate={rate:g}; try {rate / 10:g}, or keep the parameters in a projection "
            "such as Ball(10)"
        )
    # A running mean: Σ q(t) θ(t) needs no more memory than one model, however many rounds.
    weight = state.weight + round_share
    average = state.average.lerp(state.parameters, round_share / weight)
    memory = state.memory
    if server is not None and not server.plain:
        move, memory = server(move, state.parameters, memory, orders.number)
        length = float(move.norm())
    # The move is nobody else's, so that θ(t+1) can take its place: models may be large.
    parameters = move.add_(state.parameters)
    if projection is not None:
        parameters = _projected(parameters, projection)
    return State(orders.number, parameters, average, weight, memory), length


def _projected(parameters: Tensor, projection: Projection) -> Tensor:
    found = projection(parameters)
    if not isinstance(found, Tensor) or found.shape != parameters.shape:
        raise InputError(
            f"projection: it must give a vector of {len(parameters)} parameters for such a vector; "
            f"got a {type(found).__name__}"
        )
    return found


def schedule(rate: Rate, rounds: int) -> list[float]:
    """The learning rate of every round, from a number or a function of the round (from 1).

    >>> schedule(lambda round: 0.5 / round, 2)
    [0.5, 0.25]
    """
    values = [rate(t) for t in range(1, rounds + 1)] if callable(rate) else [rate] * rounds
    found = [number("learning_rate", v, "a number, or a function of the round") for v in values]
    for t, value in enumerate(found, 1):
        # All rounds' rates are looked at now: a schedule that ends in 0 would fail hours later.
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"learning_rate: a finite number above 0; got {value} in round {t}")
    return found
