"""Strategies: how much each sample counts, λ_m(t, j) in the paper. Each is only a choice of
weights.

A strategy looks at who holds which sample when, never at features or labels, and returns one weight
a sample that holds while the sample is in memory; or a function that gives the weights of a round,
if they change from round to round. Only ratios of weights matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.ledger.holdings import Holdings
from headwater.randomness import Floats

Weights = Floats | Callable[[int], Floats]


@runtime_checkable
class Strategy(Protocol):
    """A choice of weights."""

    def weights(self, holdings: Holdings) -> Weights:
        """λ: one weight ≥ 0 a sample, or a function of the round that gives them."""
        ...


@dataclass(frozen=True)
class Uniform:
    """Every sample that was ever in a memory counts the same over the run, whatever the memory
    rule.

    λ = 1 / (rounds in memory), so that p_mi = 1/N: Section 4.2 of the paper. The bound's best
    choice when only generalisation matters.
    """

    def weights(self, holdings: Holdings) -> Floats:
        """1/τ."""
        return 1.0 / np.maximum(holdings.rounds_held, 1)


@dataclass(frozen=True)
class ByMemory:
    """Every sample in memory counts the same in every round: FedAvg on what is in memory now, λ =
    1."""

    def weights(self, holdings: Holdings) -> Floats:
        """1."""
        return np.ones(len(holdings.enter))


@dataclass(frozen=True)
class Importance:
    """Client m counts p_m over the run, each of its samples p_m / N_m, whatever the memory rule.

    >>> from headwater import Constant, Fifo, Keep, Ledger, Once
    >>> arrivals, memory = [Once(), Constant(1)], [Keep(), Fifo(2)]
    >>> ledger = Ledger.of([2, 4], arrivals, memory, Importance([0.3, 0.7]), rounds=4)
    >>> ledger.importance
    array([0.3, 0.7])
    """

    importance: tuple[float, ...]

    def __init__(self, importance: Sequence[float] | NDArray[np.floating]) -> None:
        values = np.asarray(importance, np.float64)
        if values.ndim != 1 or not np.isfinite(values).all() or (values < 0).any():
            raise InputError("Importance(p): one finite number ≥ 0 a client")
        if abs(values.sum() - 1) > 1e-6:
            raise InputError(
                f"Importance(p): the shares must sum to one; they sum to {values.sum():.8g}"
            )
        object.__setattr__(self, "importance", tuple(values.tolist()))

    def weights(self, holdings: Holdings) -> Floats:
        """p_m / (N_m τ)."""
        if len(self.importance) != holdings.clients:
            raise InputError(
                f"Importance(p): {len(self.importance)} shares for {holdings.clients} clients"
            )
        return _spread(np.asarray(self.importance), holdings)


@dataclass(frozen=True)
class Share:
    """Historical clients count ``historical`` together, fresh ones the rest; within each group by
    samples.

    This is the one number that the paper varies in its experiments, p_hist.
    """

    historical: float

    def __post_init__(self) -> None:
        if not 0 <= self.historical <= 1:
            raise InputError(f"Share(historical): a fraction from 0 to 1; got {self.historical!r}")

    def weights(self, holdings: Holdings) -> Floats:
        """p_m ∝ N_m within each group."""
        old, sizes = holdings.historical, holdings.samples.astype(np.float64)
        importance = np.zeros(holdings.clients)
        for group, share in ((old, self.historical), (~old, 1 - self.historical)):
            if share > 0:
                importance[group] = share * sizes[group] / _some(sizes[group].sum(), group is old)
        return _spread(importance, holdings)


@dataclass(frozen=True)
class Historical:
    """Only the clients whose memory does not change count, all their samples alike (Section
    4.3)."""

    def weights(self, holdings: Holdings) -> Floats:
        """Share(historical=1)."""
        return Share(1.0).weights(holdings)


@dataclass(frozen=True)
class Fresh:
    """Only the clients whose memory changes count, all their samples alike (Section 6)."""

    def weights(self, holdings: Holdings) -> Floats:
        """Share(historical=0)."""
        return Share(0.0).weights(holdings)


@dataclass(frozen=True)
class Given:
    """Weights of your own: an array, or a function of the round that returns one.

    >>> Given(lambda round: [1.0, 0.5 ** round]).weights(None)(2)
    array([1.  , 0.25])
    """

    values: Sequence[float] | Callable[[int], Sequence[float]]

    def weights(self, holdings: Holdings) -> Weights:  # noqa: ARG002 (the protocol's signature)
        """As given."""
        if callable(self.values):
            at = self.values
            return lambda round: _numbers(at(round))
        return _numbers(self.values)


def _numbers(values: Sequence[float]) -> Floats:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"Given(values): one number a sample ({error})") from error


def _spread(importance: Floats, holdings: Holdings) -> Floats:
    """Give each client its importance over the run, its samples alike."""
    idle = (importance > 0) & (holdings.samples == 0)
    if idle.any():
        m = int(np.argmax(idle))
        raise InputError(
            f"client {m} is to count {importance[m]:.4g} but holds no sample in any round"
        )
    each = np.divide(
        importance, holdings.samples, where=holdings.samples > 0, out=np.zeros(len(importance))
    )
    return each[holdings.client] / np.maximum(holdings.rounds_held, 1)


def _some(total: float, historical: bool) -> float:
    if total:
        return total
    kind = "historical clients (arrivals=Once(), memory=Keep())" if historical else "fresh clients"
    raise InputError(f"this strategy gives weight to {kind}, but there are none in this federation")
