"""How much each client counts while the streams flow: the ledger's strategies over counts alone.

A simulation knows every arrival beforehand; a live server knows only how many samples have come so
far, and how many are to be expected until the last round. That is enough for the strategies that
give each *client* an importance p_m; its samples then share it alike. With the counts of a run that
is over, the importances here equal the ledger's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.ledger.drawing import Drawing
from headwater.ledger.optimal import Optimal
from headwater.ledger.remembered import Remembered
from headwater.ledger.remembered_online import RememberedOnline
from headwater.ledger.strategies import (
    ByMemory,
    Fresh,
    Historical,
    Importance,
    Share,
    Strategy,
    Uniform,
)
from headwater.planner import minimise, remembered_importance
from headwater.randomness import Floats

HETEROGENEITY = 0.02
"""ρ where nobody gave it: a server cannot measure it, and real data had from 0.004 to 0.13."""

HORIZON = 0.25
"""The part of the run over which the model forgets, where nobody gave it."""


class NobodyCountsError(InputError):
    """A strategy gives weight to nobody who is there now; somebody may come."""


@dataclass(frozen=True)
class Counts:
    """What is known of the clients' samples, one entry per client.

    Attributes:
        samples: N_m, samples over the whole run: those that came and those that are expected.
        held: samples in memory now.
        historical: clients whose samples were all there from the start.
        rounds: of the run, or so far if it has no end.
        drawing: what a round draws of what is held.
    """

    samples: Floats
    held: Floats
    historical: NDArray[np.bool_]
    rounds: int = 1
    drawing: Drawing = field(default_factory=Drawing)

    def among(self, some: NDArray[np.bool_]) -> Counts:
        """The counts of some of the clients."""
        return replace(
            self,
            samples=np.maximum(self.samples, self.held)[some],
            held=self.held[some],
            historical=self.historical[some],
        )


def importance(strategy: Strategy, counts: Counts) -> Floats:
    """p_m of every client by a strategy; clients that hold nothing now count nothing now.

    >>> counts = Counts(np.array([20.0, 60.0]), np.array([20.0, 4.0]), np.array([True, False]))
    >>> importance(Uniform(), counts), importance(ByMemory(), counts)
    (array([0.25, 0.75]), array([0.83333333, 0.16666667]))
    """
    there = counts.held > 0
    values = np.zeros(len(there))
    # Whoever has left, or holds nothing yet, has no part in dividing up what the others count.
    if there.any():
        values[there] = _planned(strategy, counts.among(there), there)
    if not values.sum() > 0:
        raise NobodyCountsError(
            f"{strategy!r} gives weight to nobody: of {len(there)} clients {int(there.sum())} hold "
            f"samples, {int((there & counts.historical).sum())} of these are historical"
        )
    return np.asarray(values / values.sum(), np.float64)


def _planned(strategy: Strategy, counts: Counts, there: NDArray[np.bool_]) -> Floats:
    match strategy:
        case Uniform():
            return counts.samples
        case ByMemory():
            return counts.held
        case Historical():
            return _by_group(1.0, counts)
        case Fresh():
            return _by_group(0.0, counts)
        case Share(historical=share):
            return _by_group(share, counts)
        case Importance(importance=given):
            return _given(np.asarray(given), len(there))[there]
        case Optimal():
            return _optimal(strategy, counts)
        case Remembered():
            return _remembered(strategy, counts)
    raise InputError(
        f"{strategy!r} weighs single samples, which a live server does not know; declare the "
        "arrivals of all nodes, or choose a strategy that weighs clients, such as Uniform()"
    )


def _by_group(share: float, counts: Counts) -> Floats:
    """Historical clients count ``share`` together, the others the rest, each by its samples."""
    samples, historical = counts.samples, counts.historical
    values = np.zeros(len(samples))
    for group, part in ((historical, share), (~historical, 1 - share)):
        if part > 0 and group.any():
            values[group] = part * samples[group] / samples[group].sum()
    return values


def _given(shares: Floats, clients: int) -> Floats:
    """The given shares; clients that joined after round 1 have none, and count nothing."""
    return np.concatenate([shares, np.zeros(clients - len(shares))])


def _optimal(strategy: Optimal, counts: Counts) -> Floats:
    if strategy.ratio is None or strategy.bound != "paper":
        raise InputError(
            f"{strategy!r}: a live server needs a given ratio and the paper's bound, as in "
            "Optimal(0.15); headwater plan estimates a ratio"
        )
    noise = (~counts.historical).astype(np.float64)
    return minimise(noise, counts.samples, strategy.ratio).importance


def _remembered(strategy: Remembered, counts: Counts) -> Floats:
    """The minimiser of Q with v_m = 1/B − 1/N, B as the client draws from what it holds now."""
    if strategy.target is not None:
        raise InputError(f"{strategy!r}: clients come and go here, so there can be no target")
    known = with_guesses(strategy)
    assert isinstance(known, Remembered)
    assert known.heterogeneity is not None
    drawn = counts.held / (1 + counts.drawing.redraws(counts.held))
    noise = np.maximum(0.0, 1 / drawn - 1 / counts.samples)
    horizon = known.rounds(counts.rounds)
    return remembered_importance(counts.samples, noise, horizon, float(known.heterogeneity))


def check_given(strategy: Strategy, clients: int) -> None:
    """Given shares are those of the clients with which a run begins."""
    if isinstance(strategy, Importance) and len(strategy.importance) != clients:
        raise InputError(
            f"Importance(p): {len(strategy.importance)} shares for {clients} clients; give one per "
            "client, in the order of their names, and set min_clients to wait for all of them"
        )


def with_guesses(strategy: Strategy) -> Strategy:
    """A strategy with the numbers that only a simulation can measure, where nobody gave them.

    >>> with_guesses(Remembered(heterogeneity=0.1)), with_guesses(Uniform())
    (Remembered(horizon=0.25, heterogeneity=0.1, target=None), Uniform())
    """
    if not isinstance(strategy, Remembered):
        return strategy
    horizon = HORIZON if strategy.horizon is None else strategy.horizon
    alike = HETEROGENEITY if strategy.heterogeneity is None else strategy.heterogeneity
    return type(strategy)(horizon, alike, strategy.target)


def looks_ahead(strategy: Strategy) -> bool:
    """Does a strategy count what is expected until the last round, or only what has come?"""
    return not isinstance(strategy, RememberedOnline | ByMemory)
