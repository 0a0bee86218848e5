"""Importances by remembered samples: how much of a client a model that forgets can hold on to.

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
            before the first round, after a pilot. τ is at least one round. Where nothing can be
            measured, a twentieth to a quarter of the run is a fair guess for networks.
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
        # Clients that never hold a sample count nothing, and are no part of the problem.
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


def _check_horizon(name: str, horizon: object) -> None:
    fraction = isinstance(horizon, float | np.floating) and 0 < horizon <= 1
    whole = is_whole(horizon) and is_number(horizon) and horizon >= 1
    if not (fraction or whole or (isinstance(horizon, float) and horizon == np.inf)):
        raise InputError(
            f"{name}(horizon): a fraction of the run above 0 and up to 1.0, or a whole number of "
            f"rounds, at least 1, or infinity; got {horizon!r}"
        )
