"""A strategy for those who do not want every sample to count the same in the end.

The paper's ψ aims at doing well on all samples alike, α_m = n_m. Its general bound (appendix, the
general case of Corollary 1) takes any target α: how much the error on each client matters. Learning
from other proportions than those has a price of its own, 2·disc·‖α − p‖₁, which makes clients stick
at their target unless noise or few samples are worth leaving it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.ledger.client_terms import ClientTerms
from headwater.ledger.holdings import Holdings
from headwater.ledger.settled import Bound, check_bound, least_bound
from headwater.ledger.strategies import spread
from headwater.planner import Constants, optimal_for_target
from headwater.planner.checks import distribution
from headwater.randomness import Floats


@dataclass(frozen=True)
class Target:
    """Importance that minimises the general bound for a target α.

    Attributes:
        alpha: α_m, how much the error on each client matters, summing to one; None: every client
            that holds samples the same, as accuracies that are averaged over clients have it.
        constants: the prices c1, c2' and disc of the bound; None: :func:`headwater.simulate`
            estimates them from the historical samples before the first round.
        bound: "paper" takes the noise for one for each fresh client, "sharp" takes the exact noise
            of its memory, as in :class:`headwater.Optimal`.

    >>> from headwater import Constant, Fifo, Keep, Ledger, Once
    >>> rules = [Once(), Once(), Constant(4)], [Keep(), Keep(), Fifo(4)]
    >>> prices = Constants(c0=0.0, c1=1.0, few_samples=0.5, discrepancy=0.15)
    >>> aim = Target(alpha=[0.2, 0.3, 0.5], constants=prices)
    >>> Ledger.of([100, 100, 400], *rules, aim, rounds=100).importance.round(4)
    array([0.2585, 0.3   , 0.4415])
    """

    alpha: tuple[float, ...] | None
    constants: Constants | None
    bound: Bound

    def __init__(
        self,
        alpha: Sequence[float] | NDArray[np.floating] | None = None,
        constants: Constants | None = None,
        bound: Bound = "paper",
    ) -> None:
        if alpha is not None:
            size = np.size(np.asarray(alpha, dtype=object))
            alpha = tuple(distribution(alpha, size, "Target(alpha)").tolist())
        if constants is not None and not isinstance(constants, Constants):
            raise InputError(f"Target(constants): Constants(…) or None; got {constants!r}")
        check_bound("Target", bound)
        object.__setattr__(self, "alpha", alpha)
        object.__setattr__(self, "constants", constants)
        object.__setattr__(self, "bound", bound)

    def weights(self, holdings: Holdings) -> Floats:
        """λ from the minimiser's importance."""
        return spread(self.importance(holdings), holdings)

    def importance(self, holdings: Holdings) -> Floats:
        """The importance p* of each client."""
        if self.constants is None:
            raise InputError(
                "Target(constants): give the bound's prices, or leave them to simulate(), which "
                "estimates them"
            )
        terms = ClientTerms(holdings)
        return least_bound(self.bound, terms, lambda noise: self._minimiser(noise, terms))

    def _minimiser(self, noise: Floats, terms: ClientTerms) -> Floats:
        """The importances that minimise the bound for a given noise of each client."""
        assert self.constants is not None
        there = terms.holdings.collected > 0
        aim = self._aim(there)
        importance = np.zeros(len(there))
        importance[there] = optimal_for_target(
            terms.drawable[there], noise[there], aim[there], self.constants
        ).importance
        return importance

    def _aim(self, there: NDArray[np.bool_]) -> Floats:
        if self.alpha is None:
            return there / np.count_nonzero(there)
        aim = np.asarray(self.alpha)
        if len(aim) != len(there):
            raise InputError(f"Target(alpha): {len(aim)} shares for {len(there)} clients")
        absent = (aim > 0) & ~there
        if absent.any():
            client = int(np.argmax(absent))
            raise InputError(
                f"Target(alpha): client {client} is to matter {aim[client]:.4g} but holds no "
                "sample in any round; give it 0"
            )
        return aim
