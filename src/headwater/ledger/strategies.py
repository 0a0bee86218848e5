"""Strategies: how much each sample counts, λ_m(t, j) in the paper. Each only chooses weights.

A strategy looks at who holds which sample when, never at features or labels, and returns one weight
per sample that holds while the sample is in memory; or a function that gives the weights of a
round, if they change from round to round. Only ratios of weights matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.ledger.checks import is_number
from headwater.ledger.holdings import Holdings
from headwater.randomness import Floats

Weights = Floats | Callable[[int], Floats]


@runtime_checkable
class Strategy(Protocol):
    """A choice of weights."""

    def weights(self, holdings: Holdings) -> Weights:
        """Give λ: one weight ≥ 0 per sample, or a function of the round that gives them."""
        ...


@dataclass(frozen=True)
class Uniform:
    """Every sample that was ever in a memory counts the same over the run.

    λ = 1 / (rounds in memory), so that p_mi = 1/N whatever the memory rule: Section 4.2 of the
    paper. The bound's best choice when only generalisation matters.
    """

    def weights(self, holdings: Holdings) -> Floats:
        """Divide one by the rounds in memory."""
        return 1.0 / np.maximum(holdings.rounds_held, 1)


@dataclass(frozen=True)
class ByMemory:
    """Every sample in memory counts the same in every round, λ = 1: FedAvg on what is held now."""

    def weights(self, holdings: Holdings) -> Floats:
        """Give every sample the weight one."""
        return np.ones(len(holdings.enter))


@dataclass(frozen=True)
class Importance:
    """Client m counts p_m over the run, each of its samples p_m / N_m, whatever the memory rule.

    Example:
        >>> from headwater import Constant, Fifo, Keep, Ledger, Once
        >>> arrivals, memory = [Once(), Constant(1)], [Keep(), Fifo(2)]
        >>> ledger = Ledger.of([2, 4], arrivals, memory, Importance([0.3, 0.7]), rounds=4)
        >>> ledger.importance
        array([0.3, 0.7])
    """

    importance: tuple[float, ...]

    def __init__(self, importance: Sequence[float] | NDArray[np.floating]) -> None:
        values = _numbers(importance, "Importance(p): one number per client")
        if values.ndim != 1 or not np.isfinite(values).all() or (values < 0).any():
            raise InputError("Importance(p): one finite number ≥ 0 per client")
        if abs(values.sum() - 1) > 1e-6:
            raise InputError(
                f"Importance(p): the shares must sum to one; they sum to {values.sum():.8g}"
            )
        object.__setattr__(self, "importance", tuple(values.tolist()))

    def weights(self, holdings: Holdings) -> Floats:
        """Spread each p_m evenly over the client's samples and the rounds that hold them."""
        if len(self.importance) != holdings.clients:
            raise InputError(
                f"Importance(p): {len(self.importance)} shares for {holdings.clients} clients"
            )
        return spread(np.asarray(self.importance), holdings)


@dataclass(frozen=True)
class Share:
    """Historical clients count ``historical`` together, fresh ones the rest.

    Within each group clients count by their samples. This is the one number that the paper varies
    in its experiments, p_hist.
    """

    historical: float

    def __post_init__(self) -> None:
        if not is_number(self.historical) or not 0 <= self.historical <= 1:
            raise InputError(f"Share(historical): a fraction from 0 to 1; got {self.historical!r}")

    def weights(self, holdings: Holdings) -> Floats:
        """Make p_m proportional to N_m within each group."""
        old = holdings.historical
        counts = holdings.collected.astype(np.float64)
        importance = np.zeros(holdings.clients)
        for group, share in ((old, self.historical), (~old, 1 - self.historical)):
            if share > 0:
                total = _some(counts[group].sum(), group is old)
                importance[group] = share * counts[group] / total
        return spread(importance, holdings)


@dataclass(frozen=True)
class Historical:
    """Only clients whose memory does not change count, all their samples alike (Section 4.3)."""

    def weights(self, holdings: Holdings) -> Floats:
        """Give historical clients the share 1."""
        return Share(1.0).weights(holdings)


@dataclass(frozen=True)
class Fresh:
    """Only clients whose memory changes count, all their samples alike (Section 6)."""

    def weights(self, holdings: Holdings) -> Floats:
        """Give historical clients the share 0."""
        return Share(0.0).weights(holdings)


@dataclass(frozen=True)
class Given:
    """Weights of your own: an array, or a function of the round that returns one.

    Example:
        >>> Given(lambda round: [1.0, 0.5 ** round]).weights(None)(2)
        array([1.  , 0.25])
    """

    values: Sequence[float] | Callable[[int], Sequence[float]]

    def weights(self, holdings: Holdings) -> Weights:  # noqa: ARG002 (the protocol's signature)
        """Give the weights as they are."""
        rule = "Given(values): one number per sample"
        if callable(self.values):
            at = self.values
            return lambda round: _numbers(at(round), rule)
        return _numbers(self.values, rule)


def spread(importance: Floats, holdings: Holdings) -> Floats:
    """Give each client its importance over the run, all of its samples alike: p_m / (N_m rounds).

    Args:
        importance: p_m, one number per client.
        holdings: who holds what when.
    """
    idle = (importance > 0) & (holdings.collected == 0)
    if idle.any():
        m = int(np.argmax(idle))
        raise InputError(
            f"client {m} is to count {importance[m]:.4g} but holds no sample in any round"
        )
    each = importance / np.maximum(holdings.collected, 1)
    return each[holdings.client] / np.maximum(holdings.rounds_held, 1)


def _numbers(values: object, rule: str) -> Floats:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{rule} ({error})") from error


def _some(total: float, historical: bool) -> float:
    """The samples of a group that is to count, of which there must be some."""
    if total:
        return total
    kind = "historical clients (arrivals=Once(), memory=Keep())" if historical else "fresh clients"
    raise InputError(f"this strategy gives weight to {kind}, but there are none in this federation")
