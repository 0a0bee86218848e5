"""Counting processes N_m(t): in which round does a client's next sample arrive (Section 3)?

A process answers for every sample of a client at once: :meth:`Arrivals.rounds` gives each sample
the round, counted from 1, in which it reaches the client; a number beyond the last round of a run
means never. A process is a small frozen dataclass; write your own with the two methods of
:class:`Arrivals` and the conformance suite checks it. A third method, that of :class:`Departures`,
is for clients that leave before the run ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.ledger.checks import is_number, is_whole
from headwater.ledger.samples import Samples
from headwater.randomness import Purpose

Rounds = NDArray[np.int64]
Number = TypeVar("Number", np.int64, np.float64)

FOREVER = 2**31 - 1
"""A round that no run reaches."""


@runtime_checkable
class Arrivals(Protocol):
    """When samples arrive. Rounds must not decrease along a client's samples, and start at 1."""

    def rounds(self, samples: Samples) -> Rounds:
        """Give the round in which each sample arrives."""
        ...

    def largest_batch(self, count: int) -> int:
        """Say how many of a client's ``count`` samples surely come in one round; 0: not known."""
        ...


@runtime_checkable
class Departures(Arrivals, Protocol):
    """Arrivals at clients that leave at some time, and take their memory along.

    A process without this method stays to the end of the run.
    """

    def departures(self, samples: Samples) -> Rounds:
        """Give the first round in which each sample's client is gone: one number per client."""
        ...


def departures(process: Arrivals, samples: Samples) -> Rounds:
    """Give the first round in which each sample's client is gone, whatever the process.

    Example:
        >>> some = Samples.of(np.array([0]), np.array([2]), seed=0)
        >>> departures(Window(3, 4), some), (departures(Once(), some) == FOREVER).all()
        (array([5, 5]), np.True_)
    """
    if isinstance(process, Departures):
        return process.departures(samples)
    return np.full(len(samples.position), FOREVER, np.int64)


@dataclass(frozen=True)
class Once:
    """All samples are there before round 1: a historical client.

    Example:
        >>> Once().rounds(Samples.of(np.array([0]), np.array([3]), seed=0))
        array([1, 1, 1])
    """

    def rounds(self, samples: Samples) -> Rounds:
        """Give round 1 for all."""
        return np.ones(len(samples.position), np.int64)

    def largest_batch(self, count: int) -> int:
        """All of them come together."""
        return count


@dataclass(frozen=True)
class Constant:
    """``rate`` samples per round, b_m in the paper; 0.5 means one sample every second round.

    Example:
        >>> Constant(2).rounds(Samples.of(np.array([0]), np.array([5]), seed=0))
        array([1, 1, 2, 2, 3])
    """

    rate: float

    def __post_init__(self) -> None:
        _check_rate("Constant", self.rate)

    def rounds(self, samples: Samples) -> Rounds:
        """Sample i arrives in round 1 + floor(i / rate)."""
        if float(self.rate).is_integer():
            return 1 + samples.position // int(self.rate)
        # 3 / 0.3 is 9.999… in floating point: without a tolerance the sample came a round early.
        quotient = samples.position / self.rate + 1e-9
        return 1 + np.minimum(quotient, FOREVER - 1).astype(np.int64)

    def largest_batch(self, count: int) -> int:
        """The rate rounded up, or all samples if they are fewer."""
        return min(count, int(np.ceil(self.rate)))


@dataclass(frozen=True)
class Poisson:
    """A Poisson number of samples each round, ``rate`` on average.

    Drawn as exponential gaps between samples, so the work grows with the samples and not with the
    rounds.

    Example:
        >>> Poisson(1.5).rounds(Samples.of(np.array([0]), np.array([6]), seed=1))
        array([1, 2, 2, 3, 3, 4])
    """

    rate: float

    def __post_init__(self) -> None:
        _check_rate("Poisson", self.rate)

    def rounds(self, samples: Samples) -> Rounds:
        """Sample i arrives in round 1 + floor(sum of i + 1 exponential gaps of mean 1 / rate)."""
        gaps = np.minimum(-np.log1p(-samples.draw(Purpose.ARRIVALS)) / self.rate, FOREVER)
        # Sums of fixed-point numbers are exact, so that a client's arrivals do not depend on whose
        # gaps were added before; 31 bits after the point.
        ticks = _within_clients(samples, (gaps * 2.0**31).astype(np.int64))
        # Ticks overflow at round 2^32. Long before that the sum in floating point knows that the
        # sample comes after the end of any run.
        late = _within_clients(samples, gaps) > 2.0**30
        return np.where(late, FOREVER, 1 + (ticks >> 31))

    def largest_batch(self, count: int) -> int:  # noqa: ARG002 (the protocol's signature)
        """Not known beforehand."""
        return 0


@dataclass(frozen=True)
class Trace:
    """Recorded arrivals: ``counts[t - 1]`` samples in round t, nothing after the trace ends.

    Example:
        >>> Trace([2, 0, 1]).rounds(Samples.of(np.array([0]), np.array([4]), seed=0)) < 4
        array([ True,  True,  True, False])
    """

    counts: tuple[int, ...]

    def __init__(self, counts: object) -> None:
        message = f"Trace(counts): whole numbers ≥ 0, one per round, not all zero; got {counts!r}"
        try:
            array = np.asarray(counts)
        except ValueError as error:
            raise InputError(message) from error
        if array.ndim != 1 or array.dtype.kind not in "iu" or (array < 0).any() or not array.any():
            raise InputError(message)
        object.__setattr__(self, "counts", tuple(array.tolist()))

    def rounds(self, samples: Samples) -> Rounds:
        """Sample i arrives in the first round by whose end more than i have been counted."""
        arrived = np.cumsum(self.counts)
        rounds = 1 + np.searchsorted(arrived, samples.position, side="right")
        return np.where(samples.position < arrived[-1], rounds, FOREVER)

    def largest_batch(self, count: int) -> int:
        """The largest count of a round."""
        return min(count, max(self.counts))


@dataclass(frozen=True)
class Window:
    """A client that is there from round ``first`` to round ``last`` only.

    It takes its memory along when it leaves. Within the window samples arrive as ``arrivals`` says,
    whose round 1 is ``first``.

    Example:
        >>> Window(3, 4, Constant(2)).rounds(Samples.of(np.array([0]), np.array([4]), seed=0))
        array([3, 3, 4, 4])
    """

    first: int
    last: int
    arrivals: Arrivals = field(default_factory=Once)

    def __post_init__(self) -> None:
        whole = all(is_whole(round) for round in (self.first, self.last))
        if not whole or not 1 <= self.first <= self.last < FOREVER:
            raise InputError(
                f"Window(first, last): whole numbers, 1 ≤ first ≤ last < {FOREVER}; got "
                f"first={self.first!r}, last={self.last!r}"
            )
        if isinstance(self.arrivals, type) or not isinstance(self.arrivals, Arrivals):
            raise InputError(
                f"Window(arrivals): Once(), Constant(4) or the like; got {self.arrivals!r}"
            )

    def rounds(self, samples: Samples) -> Rounds:
        """Move the inner process; what would arrive after the window never does."""
        moved = self.arrivals.rounds(samples) + (self.first - 1)
        return np.where(moved <= self.last, moved, FOREVER)

    def departures(self, samples: Samples) -> Rounds:
        """The client leaves after ``last``, or before that if the inner process says so."""
        moved = departures(self.arrivals, samples) + (self.first - 1)
        return np.minimum(moved, self.last + 1)

    def largest_batch(self, count: int) -> int:
        """That of the inner process."""
        return self.arrivals.largest_batch(count)


def _within_clients(samples: Samples, values: NDArray[Number]) -> NDArray[Number]:
    """Running sums that begin anew with every client."""
    sums = np.cumsum(values)
    starts = np.flatnonzero(samples.position == 0)
    before = np.concatenate([[0], sums])[starts]
    return sums - np.repeat(before, np.diff(np.append(starts, len(sums))))


def _check_rate(name: str, rate: object) -> None:
    if not is_number(rate) or not 0 < rate < np.inf:
        raise InputError(
            f"{name}(rate): a finite number of samples per round, above 0; got {rate!r}"
        )
