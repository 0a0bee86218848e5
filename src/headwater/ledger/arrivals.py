"""Counting processes N_m(t): in which round does a client's next sample arrive? (Section 3 of the
paper.)

A process answers for every sample of a client at once: :meth:`Arrivals.rounds` gives each sample
the round, counted from 1, in which it reaches the client; a number beyond the last round of a run
means never. A process is a small frozen dataclass; write your own with these two methods and the
conformance suite checks it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.ledger.samples import Samples
from headwater.randomness import Purpose

Rounds = NDArray[np.int64]
Number = TypeVar("Number", np.int64, np.float64)
FOREVER = 2**31 - 1  # no run is longer


@runtime_checkable
class Arrivals(Protocol):
    """When samples arrive. Rounds must not decrease along a client's samples, and start at 1."""

    def rounds(self, samples: Samples) -> Rounds:
        """The round in which each sample arrives."""
        ...

    def largest_batch(self, count: int) -> int:
        """The most samples that surely arrive in one round if the client has ``count`` (0: not
        known)."""
        ...


@dataclass(frozen=True)
class Once:
    """All samples are there before round 1: a historical client.

    >>> Once().rounds(Samples.of(np.array([0]), np.array([3]), seed=0))
    array([1, 1, 1])
    """

    def rounds(self, samples: Samples) -> Rounds:
        """Round 1 for all."""
        return np.ones(len(samples.position), np.int64)

    def largest_batch(self, count: int) -> int:
        """All of them."""
        return count


@dataclass(frozen=True)
class Constant:
    """``rate`` samples a round, b_m in the paper; 0.5 means one sample every second round.

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
        # the hair keeps 3 / 0.3 from falling to the round before
        return 1 + np.minimum(samples.position / self.rate + 1e-9, FOREVER - 1).astype(np.int64)

    def largest_batch(self, count: int) -> int:
        """The rate, or all samples if they are fewer."""
        return min(count, int(np.ceil(self.rate)))


@dataclass(frozen=True)
class Poisson:
    """A Poisson number of samples each round, ``rate`` on average.

    Drawn as exponential gaps between samples, so the work grows with the samples and not with the
    rounds.

    >>> Poisson(1.5).rounds(Samples.of(np.array([0]), np.array([6]), seed=1))
    array([1, 2, 2, 3, 3, 4])
    """

    rate: float

    def __post_init__(self) -> None:
        _check_rate("Poisson", self.rate)

    def rounds(self, samples: Samples) -> Rounds:
        """Sample i arrives in round 1 + floor(sum of i + 1 exponential gaps of mean 1 / rate)."""
        gaps = np.minimum(-np.log1p(-samples.draw(Purpose.ARRIVALS)) / self.rate, FOREVER)
        # Fixed-point numbers: their sums are exact, so a client's arrivals do not depend on who
        # else is summed.
        ticks = _within_clients(samples, (gaps * 2.0**31).astype(np.int64))
        late = (
            _within_clients(samples, gaps) > 2.0**30
        )  # beyond any run, and before a client's ticks overflow
        return np.where(late, FOREVER, 1 + (ticks >> 31))

    def largest_batch(self, count: int) -> int:  # noqa: ARG002 (the protocol's signature)
        """Not known beforehand."""
        return 0


@dataclass(frozen=True)
class Trace:
    """Recorded arrivals: ``counts[t - 1]`` samples in round t, nothing after the trace ends.

    >>> Trace([2, 0, 1]).rounds(Samples.of(np.array([0]), np.array([4]), seed=0)) < 4
    array([ True,  True,  True, False])
    """

    counts: tuple[int, ...]

    def __init__(self, counts: object) -> None:
        array = np.asarray(counts)
        if array.ndim != 1 or array.dtype.kind not in "iu" or (array < 0).any() or not array.sum():
            raise InputError(
                "Trace(counts): whole numbers ≥ 0, one a round, not all of them zero; got "
                f"{counts!r}"
            )
        object.__setattr__(self, "counts", tuple(int(c) for c in array))

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
    """A client that is there from round ``first`` to round ``last`` only, and takes its memory
    along.

    Within the window samples arrive as ``arrivals`` says, its round 1 being ``first``.

    >>> Window(3, 4, Constant(2)).rounds(Samples.of(np.array([0]), np.array([4]), seed=0))
    array([3, 3, 4, 4])
    """

    first: int
    last: int
    arrivals: Arrivals = field(default_factory=Once)

    def __post_init__(self) -> None:
        whole = all(isinstance(round, int | np.integer) for round in (self.first, self.last))
        if not whole or not 1 <= self.first <= self.last:
            raise InputError(
                f"Window(first, last): whole numbers, 1 ≤ first ≤ last; got first={self.first}, "
                f"last={self.last}"
            )
        if isinstance(self.arrivals, Window):
            raise InputError(
                "Window(arrivals): a window within a window; give one with the rounds that are in "
                "both"
            )

    def rounds(self, samples: Samples) -> Rounds:
        """The inner process, moved; what would arrive after the window never does."""
        inner = self.arrivals.rounds(samples)
        return np.where(inner <= self.last - self.first + 1, inner + (self.first - 1), FOREVER)

    def largest_batch(self, count: int) -> int:
        """That of the inner process."""
        return self.arrivals.largest_batch(count)


def _within_clients(samples: Samples, values: NDArray[Number]) -> NDArray[Number]:
    """Running sums that begin anew with every client."""
    sums = np.cumsum(values)
    starts = np.flatnonzero(samples.position == 0)
    before = np.concatenate([[0], sums])[starts]
    return sums - np.repeat(before, np.diff(np.append(starts, len(sums))))


def _check_rate(name: str, rate: float) -> None:
    if not (isinstance(rate, int | float | np.number) and np.isfinite(rate) and rate > 0):
        raise InputError(f"{name}(rate): a finite number of samples a round above 0; got {rate!r}")
