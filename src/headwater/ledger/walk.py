"""From one round to the next: what is held changes by what enters and what leaves.

Looking up who holds what costs a look at all samples of the run. One after the other, rounds cost
only what is held in them: samples are sorted by the round in which they enter and by that in which
they leave, once, and each round takes its part of both lists.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headwater.ledger.holdings import Counts, Holdings

Rounds = NDArray[np.int32]


class Walk:
    """The samples that count and are held, round after round.

    Example:
        >>> from headwater import Constant, Fifo, unroll
        >>> holdings = unroll([4], Constant(1), Fifo(2), rounds=4)
        >>> [held.tolist() for held in Walk(holdings, np.ones(4)).held(first=2)]
        [[0, 1], [1, 2], [2, 3]]
    """

    def __init__(self, holdings: Holdings, weights: NDArray[np.float64]) -> None:
        self._holdings = holdings
        self._there = np.flatnonzero((holdings.rounds_held > 0) & (weights > 0))
        self._entering = _Timetable(self._there, holdings.enter, holdings.rounds)
        self._leaving = _Timetable(self._there, holdings.leave, holdings.rounds)

    def held(self, first: int = 1) -> Iterator[Counts]:
        """Sample numbers, ascending, of every round from ``first`` on; equal rounds share them."""
        there = self._there
        enter, leave = self._holdings.enter[there], self._holdings.leave[there]
        # The first round is looked up; from there on only what changes is touched.
        now = there[(enter <= first) & (first < leave)]
        yield now
        for round in range(first + 1, self._holdings.rounds + 1):
            gone, new = self._leaving.at(round), self._entering.at(round)
            # New arrays, never changes in place: whoever keeps an earlier round keeps it whole.
            if len(gone):
                now = np.delete(now, np.searchsorted(now, gone))
            if len(new):
                now = np.insert(now, np.searchsorted(now, new), new)
            yield now


class _Timetable:
    """Sample numbers by the round in which something happens to them."""

    def __init__(self, samples: Counts, rounds: Rounds, last: int) -> None:
        when = rounds[samples]
        order = np.argsort(when, kind="stable")  # stable: in a round in ascending order
        self._samples = samples[order]
        self._starts = np.searchsorted(when[order], np.arange(last + 2))

    def at(self, round: int) -> Counts:
        """The samples of this round, in ascending order."""
        return self._samples[self._starts[round] : self._starts[round + 1]]
