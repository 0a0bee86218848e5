"""Strategies by remembered samples: how much of each client a model that forgets can hold on to.

The rule and its derivation are in :mod:`headwater.planner.remembered`; here it meets a run: who
holds what when, what is drawn of it, and who is there in which round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.ledger.checks import is_number, is_whole
from headwater.ledger.client_terms import ClientTerms
from headwater.ledger.holdings import Counts, Holdings
from headwater.ledger.spells import Spells
from headwater.ledger.strategies import Weights, spread
from headwater.planner.checks import distribution
from headwater.planner.remembered import remembered_importance, remembered_share
from headwater.randomness import Floats


@dataclass(frozen=True)
class Remembered:
    """Clients count by the samples that the model can remember of them.

    The minimiser of Q, exact for any arrivals, memory rules, batches and clients that come and go.
    What is assumed: the model is near a minimum, the learning rate is constant, clients differ at
    random, and every round counts the same.

    Attributes:
        horizon: over which part of the run the model forgets (a float up to 1.0), or over how many
            rounds (a whole number, or infinity); None: :func:`headwater.simulate` measures it
            before the first round. τ is at least one round. Where nothing can be measured, a
            quarter of the run is a good guess for networks.
        heterogeneity: ρ, the variance of mean gradients between clients over the variance within;
            None: :func:`headwater.simulate` measures it before the first round.
        target: α_m, how much the error on each client matters, summing to one; None: every client
            that holds samples the same.

    Example:
        >>> from headwater import Constant, Fifo, Keep, Ledger, Once
        >>> rules = [Once(), Constant(4)], [Keep(), Fifo(4)]
        >>> alike = Remembered(horizon=25, heterogeneity=0.0)
        >>> Ledger.of([100, 400], *rules, alike, rounds=100).importance.round(3)
        array([0.554, 0.446])
    """

    horizon: float | None
    heterogeneity: float | None
    target: tuple[float, ...] | None

    def __init__(
        self,
        horizon: float | None = None,
        heterogeneity: float | None = None,
        target: Sequence[float] | NDArray[np.floating] | None = None,
    ) -> None:
        name = type(self).__name__
        if horizon is not None:
            _check_horizon(name, horizon)
        if heterogeneity is not None and not (is_number(heterogeneity) and heterogeneity >= 0):
            raise InputError(f"{name}(heterogeneity): a number ≥ 0 or None; got {heterogeneity!r}")
        if target is not None:
            size = np.size(np.asarray(target, dtype=object))
            target = tuple(distribution(target, size, f"{name}(target)").tolist())
        object.__setattr__(self, "horizon", horizon)
        object.__setattr__(self, "heterogeneity", heterogeneity)
        object.__setattr__(self, "target", target)

    def rounds(self, length: int) -> float:
        """Give τ in rounds, for a run of this length."""
        if self.horizon is None:
            raise InputError(
                f"{type(self).__name__}(horizon): give τ (0.25 is a quarter of the run), or leave "
                "it to simulate(), which measures it"
            )
        fraction = isinstance(self.horizon, float | np.floating) and self.horizon <= 1
        return max(1.0, float(self.horizon) * (length if fraction else 1))

    def weights(self, holdings: Holdings) -> Weights:
        """Spread the minimiser's importance over the samples."""
        return spread(self.importance(holdings), holdings)

    def importance(self, holdings: Holdings) -> Floats:
        """Give the minimiser of Q, one number per client."""
        terms = ClientTerms(holdings)
        absence = terms.absence if self._differ else None
        return self._minimiser(
            holdings.collected, terms.noise(), absence, self.rounds(holdings.rounds)
        )

    def share(self, holdings: Holdings) -> float:
        """Give the historical clients' share that has the least Q if groups count by samples.

        That is the one number of the paper's tables, for ``Share(strategy.share(holdings))``;
        :meth:`importance` chooses for every client by itself.
        """
        there = holdings.collected > 0
        terms = ClientTerms(holdings)
        absence = terms.absence if self._differ else np.zeros(holdings.clients)
        assert self.heterogeneity is not None
        return remembered_share(
            holdings.collected[there],
            terms.noise()[there],
            ~holdings.historical[there],
            self.rounds(holdings.rounds),
            float(self.heterogeneity),
            self._aim(there),
            absence[there],
        )

    @property
    def _differ(self) -> bool:
        if self.heterogeneity is None:
            raise InputError(
                f"{type(self).__name__}(heterogeneity): give ρ (0 if clients are alike), or leave "
                "it to simulate(), which measures it"
            )
        return self.heterogeneity > 0

    def _minimiser(
        self, counts: Counts, noise: Floats, absence: Floats | None, horizon: float
    ) -> Floats:
        """The minimiser of Q among the clients that have any samples."""
        assert self.heterogeneity is not None
        there = counts > 0
        importance = np.zeros(len(counts))
        importance[there] = remembered_importance(
            counts[there],
            noise[there],
            horizon,
            float(self.heterogeneity),
            self._aim(there),
            None if absence is None else absence[there],
        )
        return importance

    def _aim(self, there: NDArray[np.bool_]) -> Floats | None:
        """The target of those that are there; those that are not matter, but cannot be learned."""
        if self.target is None:
            return None
        if len(self.target) != len(there):
            raise InputError(
                f"{type(self).__name__}(target): {len(self.target)} shares for {len(there)} clients"
            )
        return np.asarray(self.target)[there]


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
        rounds = np.clip(round + 1 - self._spells.begin, 0, self._spells.end - self._spells.begin)
        sums = np.bincount(self._spells.client, values * rounds, self._holdings.clients)
        return np.asarray(sums, np.float64)


def _check_horizon(name: str, horizon: object) -> None:
    fraction = isinstance(horizon, float | np.floating) and 0 < horizon <= 1
    whole = is_whole(horizon) and is_number(horizon) and horizon >= 1
    if not (fraction or whole or (isinstance(horizon, float) and horizon == np.inf)):
        raise InputError(
            f"{name}(horizon): a fraction of the run above 0 and up to 1.0, or a whole number of "
            f"rounds, at least 1, or infinity; got {horizon!r}"
        )
