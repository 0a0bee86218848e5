"""The rule of remembered samples for runs without a known end: only what was seen up to now counts.

The rule itself is :class:`headwater.ledger.remembered.Remembered`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headwater.ledger.holdings import Counts, Holdings
from headwater.ledger.remembered import Remembered
from headwater.ledger.spells import Spells
from headwater.ledger.strategies import Weights
from headwater.randomness import Floats


class RememberedOnline(Remembered):
    """The same from what has been seen up to each round, for runs without a known end.

    In round t a client counts by the samples that it has collected so far, by the noise of its
    rounds so far, and by the fraction of rounds in which it was there; within its memory all
    samples count the same. Nothing of the future is used, not even the length of the run: a horizon
    that is a fraction is one of the rounds so far, a quarter of them unless told otherwise. What a
    device has to send are two counts, its samples so far and those in its memory;
    :func:`headwater.planner.remembered_importance` does the rest.

    Example:
        >>> from headwater import Constant, Fifo, Keep, Ledger, Once
        >>> rules = [Once(), Constant(4)], [Keep(), Fifo(4)]
        >>> strategy = RememberedOnline(horizon=25, heterogeneity=0.0)
        >>> ledger = Ledger.of([100, 400], *rules, strategy, rounds=100)
        >>> ledger.client_shares[[0, 9, 99]].round(3)
        array([[0.962, 0.038],
               [0.773, 0.227],
               [0.554, 0.446]])
    """

    def __init__(
        self,
        horizon: float | None = 0.25,
        heterogeneity: float | None = None,
        target: Sequence[float] | NDArray[np.floating] | None = None,
    ) -> None:
        super().__init__(horizon, heterogeneity, target)

    def weights(self, holdings: Holdings) -> Weights:
        """Give the weights of a round as a function of it."""
        seen = _Seen(holdings)
        differ = self._differ

        def at(round: int) -> Floats:
            presence = seen.presence(round)
            absence = np.divide(1, presence, where=presence > 0, out=np.ones(len(presence))) - 1
            counts = seen.collected(round)
            importance = self._minimiser(
                counts, seen.noise(round), absence if differ else None, self.rounds(round)
            )
            # Who is there only now and then counts more when it is, to count its share over time.
            share = importance * (1 + absence) / np.maximum(seen.in_memory(round), 1)
            return share[holdings.client]

        return at


class _Seen:
    """Counts of what has happened up to the end of a round, from the holdings of a whole run."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        # All of the run is known to a simulation; each question below looks at its beginning only.
        found = np.flatnonzero(holdings.rounds_held > 0)
        self._client = holdings.client[found]
        self._enter = holdings.enter[found]
        self._spells = Spells.of(self._client, self._enter, holdings.leave[found], holdings.rounds)
        held = self._spells.held
        # 1/B, the inverse of the number of samples whose noise a round of this spell has.
        some = np.maximum(held, 1)
        self._inverse = np.where(held > 0, (1 + holdings.drawing.redraws(held)) / some, 0.0)

    def collected(self, round: int) -> Counts:
        """N_m so far."""
        return self._count(self._enter <= round)

    def in_memory(self, round: int) -> Counts:
        """How many samples each client holds in this round."""
        return self._holdings.per_client(self._holdings.held(round))

    def presence(self, round: int) -> Floats:
        """f_m so far: in which fraction of the rounds a client held a sample."""
        return self._over_spells((self._spells.held > 0).astype(np.float64), round) / round

    def noise(self, round: int) -> Floats:
        """v_m so far: the mean of 1/B over a client's rounds, divided by f_m, less 1/N_m."""
        there = self._over_spells((self._spells.held > 0).astype(np.float64), round)
        inverse = self._over_spells(self._inverse, round)
        square = np.divide(round * inverse, there**2, where=there > 0, out=np.zeros(len(there)))
        return np.maximum(square - 1 / np.maximum(self.collected(round), 1), 0.0)

    def _count(self, flags: NDArray[np.bool_]) -> Counts:
        return np.bincount(self._client[flags], minlength=self._holdings.clients)

    def _over_spells(self, values: Floats, round: int) -> Floats:
        """The sum of one value per round over each client's rounds up to this one."""
        # A spell that goes on after this round counts up to it, one that is to come not at all.
        rounds = np.clip(round + 1 - self._spells.begin, 0, self._spells.end - self._spells.begin)
        sums = np.bincount(self._spells.client, values * rounds, self._holdings.clients)
        return np.asarray(sums, np.float64)
