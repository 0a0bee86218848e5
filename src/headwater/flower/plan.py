"""A round's plan: which client counts how much, and with which samples.

Two plans, one form. With declared arrivals the whole ledger is known before round 1, as in a
simulation, and each client is told its samples and their weights. Otherwise the plan of a round is
made from the counts of that moment, and a client weighs all that it holds alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.flower.importance import Counts, importance, looks_ahead
from headwater.flower.roster import Roster, Standing
from headwater.ledger.arrivals import Arrivals, Constant, Once, Poisson, Trace
from headwater.ledger.drawing import Drawing
from headwater.ledger.ledger import Ledger
from headwater.ledger.memory import Fifo, Keep, Memory, Reservoir
from headwater.ledger.rounds import Round
from headwater.ledger.strategies import Strategy
from headwater.ledger.unrolling import unroll
from headwater.randomness import Floats

_FLOWER_ROUND = 6.0  # seconds; what a round of Flower takes before the first one was timed


class Plan(Protocol):
    """Who counts how much in a round."""

    def round(self, number: int, roster: Roster, connected: set[int]) -> Round:
        """The round's clients and shares."""
        ...

    def round_share(self, number: int) -> float:
        """How much the round counts in the average, up to a common factor: q(t)."""
        ...

    def samples(self, round: Round, place: int) -> tuple[NDArray[np.int64], Floats] | None:
        """Arrival numbers and weights for the client at this place; None: all that it holds."""
        ...


@dataclass(frozen=True)
class Declared:
    """The simulator's own ledger: every arrival is known beforehand."""

    ledger: Ledger

    @classmethod
    def of(cls, roster: Roster, strategy: Strategy, rounds: int, drawing: Drawing) -> Declared:
        """The ledger of clients that all declared their arrivals, with the run's seed."""
        clients = [roster[m] for m in range(len(roster))]
        counts = [int((client.declared or {})["samples"]) for client in clients]
        processes = [arrivals(client) for client in clients]
        memories = [memory(client) for client in clients]
        holdings = unroll(counts, processes, memories, rounds, drawing.seed)
        return cls(Ledger.weigh(replace(holdings, drawing=drawing), strategy))

    def round(self, number: int, roster: Roster, connected: set[int]) -> Round:  # noqa: ARG002
        """The ledger's; who is not there is absent, the shares stay as planned."""
        return self.ledger.round(number)

    def round_share(self, number: int) -> float:
        """q(t) of the ledger."""
        return float(self.ledger.round_shares[number - 1])

    def samples(self, round: Round, place: int) -> tuple[NDArray[np.int64], Floats] | None:
        """What the ledger says that this client holds."""
        mine = slice(round.offsets[place], round.offsets[place + 1])
        first = self.ledger.holdings.offsets[round.clients[place]]
        return round.samples[mine] - first, round.weights[mine]


@dataclass
class Live:
    """Shares from the counts that the clients reported last.

    Attributes:
        strategy: how much clients count.
        rounds: the run's last round; None: it has none, and only what has come so far counts.
        drawing: what a round draws of what the clients hold.
        seconds: how long a round takes, as measured.
    """

    strategy: Strategy
    rounds: int | None
    drawing: Drawing
    seconds: float = _FLOWER_ROUND

    def round(self, number: int, roster: Roster, connected: set[int]) -> Round:
        """p_m(t) of the clients that are connected: who has left does not count."""
        ahead = self.rounds is not None and looks_ahead(self.strategy)
        last = self.rounds if ahead and self.rounds is not None else number
        left = last - number + 1 if ahead else 0
        expected = [self._expected(roster[m], left) for m in range(len(roster))]
        there = np.isin([roster[m].node for m in range(len(roster))], list(connected))
        held = np.where(there, roster.column("held"), 0.0)
        historical = roster.column("historical") > 0
        counts = Counts(np.array(expected), held, historical, last, self.drawing)
        shares = importance(self.strategy, counts)
        clients = np.flatnonzero(shares)
        places = np.arange(len(clients) + 1)
        # One entry per client stands for all its samples: the choice of clients needs no more.
        return Round(number, clients, shares[clients], places, clients, np.ones(len(clients)))

    def _expected(self, client: Standing, left: int) -> float:
        """Samples until the last round, if the stream goes on as it did."""
        measured = client.rounds_seen >= 3
        flow = client.arrivals_per_round if measured else client.rate * self.seconds
        return client.arrived + (0.0 if client.historical else flow * left)

    def round_share(self, number: int) -> float:  # noqa: ARG002
        """Every round counts alike."""
        return 1.0

    def samples(self, round: Round, place: int) -> None:
        """All that the client holds, alike."""


def arrivals(client: Standing) -> Arrivals:
    """The arrival process that a client declared."""
    declared: Mapping[str, Any] = client.declared or {}
    kind = declared.get("kind")
    match kind:
        case "once":
            return Once()
        case "constant":
            return Constant(declared["rate"])
        case "poisson":
            return Poisson(float(declared["rate"]))
        case "trace":
            return Trace(declared["counts"])
    raise InputError(f"client {client.name} declares arrivals of an unknown kind: {kind!r}")


def memory(client: Standing) -> Memory:
    """The memory rule of a client."""
    if client.memory == "Keep":
        return Keep()
    if client.memory in ("Fifo", "Reservoir") and client.capacity:
        return (Fifo if client.memory == "Fifo" else Reservoir)(client.capacity)
    raise InputError(
        f"client {client.name} has a memory of its own, {client.memory!r}: its holdings cannot be "
        "known beforehand; run it without declared arrivals"
    )


def foreseeable(clients: Sequence[Standing], seed: int) -> bool:
    """Can the whole ledger be known: are all arrivals declared, and all random draws the run's?

    A client that draws (a reservoir, Poisson arrivals) must do so by the run's seed and its own
    place among the clients; ``number`` and ``seed`` in its NODE.toml say by which it does.
    """
    return all(
        client.declared is not None and (not _draws(client) or client.key == (m, seed))
        for m, client in enumerate(clients)
    )


def _draws(client: Standing) -> bool:
    kind = (client.declared or {}).get("kind")
    return client.memory not in ("Keep", "Fifo") or kind == "poisson"
