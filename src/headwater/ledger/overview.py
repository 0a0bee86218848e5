"""A ledger made small enough to look at, however many clients and rounds it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headwater.ledger.holdings import Counts, Holdings
from headwater.ledger.ledger import Ledger
from headwater.randomness import Floats

ROUNDS = 100
"""Rounds that are shown; of a longer run, some that lie evenly."""
CLIENTS = 40
"""Clients that are shown; of more, those who count most, those who are asked for, and others."""
_DIGITS = 4


@dataclass(frozen=True)
class ClientLine:
    """One client over the rounds that are shown.

    Attributes:
        number: Which client it is.
        name: What it is called.
        historical: Whether its memory stays as it is.
        samples: N_m, how many of its samples are ever in its memory.
        importance: p_m.
        held: How many samples it holds in each round.
        shares: p_m(t), what it counts in each round.
    """

    number: int
    name: str
    historical: bool
    samples: int
    importance: float
    held: list[int]
    shares: list[float]


@dataclass(frozen=True)
class Overview:
    """What there is to see of a ledger.

    Attributes:
        clients: How many there are, M.
        historical_clients: How many of them are historical.
        samples: How many samples are in a memory at least once, N.
        last: The last round, T.
        effective_samples: N_eff of the run.
        historical_share: p_hist of the run.
        variability: The gradients' variability, in units of σ0².
        rounds: The rounds that are shown.
        held: How many samples all clients hold in each of them.
        effective: N_eff(t), the effective samples of each of them.
        historical: p_hist(t), what the historical clients count in each of them.
        lines: The clients that are shown, in ascending order.
    """

    clients: int
    historical_clients: int
    samples: int
    last: int
    effective_samples: float
    historical_share: float
    variability: float
    rounds: list[int]
    held: list[int]
    effective: list[float]
    historical: list[float]
    lines: list[ClientLine]

    @classmethod
    def of(cls, ledger: Ledger, names: Sequence[str] = (), also: Sequence[int] = ()) -> Overview:
        """Look at a ledger.

        Args:
            ledger: Who holds what when, with what weight.
            names: The clients' names; empty: they have none but their numbers.
            also: Clients that must be shown, such as those for whom the model is worst.

        Example:
            >>> from headwater import Constant, Fifo, Keep, Once, Uniform
            >>> ledger = Ledger.of([2, 8], [Once(), Constant(2)], [Keep(), Fifo(2)], Uniform(), 4)
            >>> seen = Overview.of(ledger, names=["archive", "sensor"])
            >>> seen.lines[1].name, seen.lines[1].held, seen.historical
            ('sensor', [2, 2, 2, 2], [0.2, 0.2, 0.2, 0.2])
        """
        holdings = ledger.holdings
        rounds = evenly(1, holdings.rounds, ROUNDS)
        chosen = _chosen(ledger.importance, also)
        held, shares, effective = _over_rounds(ledger, rounds)
        lines = [
            ClientLine(
                m,
                str(names[m]) if len(names) else f"client {m}",
                bool(holdings.historical[m]),
                int(holdings.collected[m]),
                _short(ledger.importance[m]),
                held[:, m].tolist(),
                [_short(share) for share in shares[:, m]],
            )
            for m in chosen.tolist()
        ]
        return cls(
            holdings.clients,
            int(holdings.historical.sum()),
            int(holdings.collected.sum()),
            holdings.rounds,
            ledger.effective_samples,
            ledger.historical_share,
            ledger.variability,
            rounds.tolist(),
            held.sum(axis=1).tolist(),
            [_short(number) for number in effective],
            [_short(share) for share in shares[:, holdings.historical].sum(axis=1)],
            lines,
        )


def evenly(first: int, last: int, most: int) -> Counts:
    """All whole numbers from first to last, or ``most`` of them that lie evenly.

    >>> evenly(1, 10, 4)
    array([ 1,  4,  7, 10])
    """
    some = np.linspace(first, last, min(most, last - first + 1))
    return np.unique(some.round().astype(np.int64))


def _chosen(importance: Floats, also: Sequence[int]) -> Counts:
    """All clients; or of many those who count most, those asked for, and others evenly."""
    count = len(importance)
    if count <= CLIENTS:
        return np.arange(count)
    # A stable order: of clients that count the same, the first.
    most = np.argsort(-importance, kind="stable")[: CLIENTS // 3]
    named = np.unique(np.concatenate([most, np.asarray(also, np.int64)[: CLIENTS // 3]]))
    others = np.setdiff1d(evenly(0, count - 1, CLIENTS - len(named)), named)
    return np.sort(np.concatenate([named, others]))


def _over_rounds(ledger: Ledger, rounds: Counts) -> tuple[Counts, Floats, Floats]:
    """What each client holds and counts in some rounds, and the effective samples of each."""
    holdings: Holdings = ledger.holdings
    held = np.empty((len(rounds), holdings.clients), np.int64)
    shares = np.empty((len(rounds), holdings.clients))
    effective = np.empty(len(rounds))
    for place, t in enumerate(rounds.tolist()):
        weights = ledger.weights_at(t)
        weights /= weights.sum()
        held[place] = holdings.per_client(holdings.held(t))
        shares[place] = holdings.per_client(weights)
        effective[place] = 1 / np.square(weights).sum()
    return held, shares, effective


def _short(number: float) -> float:
    """A number with a few digits, which is all that can be seen of it."""
    return float(f"{number:.{_DIGITS}g}")
