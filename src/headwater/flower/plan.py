"""A round's plan: which client counts how much, and with which samples.

Two plans, one form. With declared arrivals the whole ledger is known before round 1, as in a
simulation, and each client is told its samples and their weights. Otherwise the plan of a round is
made from the counts of that moment, and a client weighs all that it holds alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.flower.declared import arrivals
from headwater.flower.importance import Counts, importance, looks_ahead, with_guesses
from headwater.flower.roster import Roster, Standing
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
    def of(
        cls, clients: Sequence[Standing], strategy: Strategy, rounds: int, drawing: Drawing
    ) -> Declared:
        """The ledger of clients that all declared their arrivals, with the run's seed."""
        counts = [int((client.declared or {})["samples"]) for client in clients]
        processes = [arrivals(client.declared or {}) for client in clients]
        memories = [memory(client) for client in clients]
        holdings = unroll(counts, processes, memories, rounds, drawing.seed)
        return cls(Ledger.weigh(replace(holdings, drawing=drawing), with_guesses(strategy)))

    def round(self, number: int, roster: Roster, connected: set[int]) -> Round:  # noqa: ARG002
        """The ledger's; who is not there is absent, the shares stay as planned."""
        return self.ledger.round(number)

    def round_share(self, number: int) -> float:
        """q(t) of the ledger."""
        return float(self.ledger.round_shares[number - 1])

    def samples(self, round: Round, place: int) -> tuple[NDArray[np.int64], Floats] | None:
        """All that the ledger says that this client holds, so that the node can compare.

        A round of the ledger leaves out samples of weight zero; a node knows nothing of weights.
        """
        holdings = self.ledger.holdings
        first, end = holdings.offsets[round.clients[place] : round.clients[place] + 2]
        enter, leave = holdings.enter[first:end], holdings.leave[first:end]
        held = np.flatnonzero((enter <= round.number) & (round.number < leave))
        mine = slice(round.offsets[place], round.offsets[place + 1])
        weights = np.zeros(len(held))
        weights[np.searchsorted(held, round.samples[mine] - first)] = round.weights[mine]
        return held, weights


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
        clients = list(roster)
        end = self.rounds if looks_ahead(self.strategy) else None
        # Without an end to look at, what has come by now counts: up to the round before.
        until = number - 1 if end is None else end
        counts = Counts(
            samples=np.array([self._expected(client, until) for client in clients]),
            held=np.array([_held(client) if client.node in connected else 0 for client in clients]),
            historical=roster.column("historical") > 0,
            rounds=number if end is None else end,
            drawing=self.drawing,
        )
        shares = importance(self.strategy, counts)
        chosen = np.flatnonzero(shares)
        places = np.arange(len(chosen) + 1)
        # One entry per client stands for all its samples: the choice of clients needs no more.
        return Round(number, chosen, shares[chosen], places, chosen, np.ones(len(chosen)))

    def _expected(self, client: Standing, until: int) -> float:
        """Samples up to the end of a round, if the stream goes on as it did.

        Its last report may be some rounds old: who is not asked takes in samples all the same.
        """
        if client.historical:
            return client.arrived
        measured = client.rounds_seen >= 3
        flow = client.arrivals_per_round if measured else client.rate * self.seconds
        return client.arrived + flow * max(0, until - client.heard)

    def round_share(self, number: int) -> float:  # noqa: ARG002
        """Every round counts alike."""
        return 1.0

    def samples(self, round: Round, place: int) -> None:
        """All that the client holds, alike."""


def _held(client: Standing) -> int:
    """Samples in memory; who replays by rounds has its first when it is asked for one."""
    return client.held or int(client.declared is not None)


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
