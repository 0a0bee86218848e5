"""The paper's own strategy: importances that minimise the bound on the true error (Section 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.errors import InputError
from headwater.ledger.checks import is_number
from headwater.ledger.client_terms import ClientTerms
from headwater.ledger.holdings import Holdings
from headwater.ledger.settled import Bound, check_bound, least_bound
from headwater.ledger.strategies import spread
from headwater.planner import minimise
from headwater.randomness import Floats


@dataclass(frozen=True)
class Optimal:
    """Importance that minimises ψ(p) = c1·noise(p) + c2·√(Σ p_m²/n_m), for a given ratio c2/c1.

    A client's relative size n_m counts the samples that it can draw, not those that it holds
    (:attr:`headwater.ledger.client_terms.ClientTerms.drawable`); with full batches they are the
    same.

    Attributes:
        ratio: c2/c1 as the paper defines it; None: :func:`headwater.simulate` estimates it from the
            historical samples before the first round.
        bound: "paper": noise = √(Σ_fresh p_m²), the paper's Corollary 5.1. "sharp": noise =
            √(Σ v_m p_m²) with the exact variability v_m of each client
            (:func:`headwater.ledger.client_terms.client_noise`). They agree for a single fresh
            client that sees one sample per round. The paper's noise is too large by a factor of up
            to √(b·(M − M_hist)), so "sharp" gives fresh clients more: the more of them there are,
            and the more samples each holds. Where rounds do not count the same, as with clients
            that come and go, v_m is that of the rounds as they count under the answer itself; the
            answer then is the bound's minimiser for these v_m, which is near that of the bound.

    Example:
        >>> from headwater import Constant, Fifo, Keep, Ledger, Once
        >>> old, new = [Once()] * 25, [Constant(16)] * 25
        >>> memories = [Keep()] * 25 + [Fifo(16)] * 25
        >>> counts = [400] * 25 + [1600] * 25
        >>> ledger = Ledger.of(counts, old + new, memories, Optimal(ratio=0.15), rounds=100)
        >>> round(ledger.historical_share, 4)
        0.4522
    """

    ratio: float | None = None
    bound: Bound = "paper"

    def __post_init__(self) -> None:
        check_bound("Optimal", self.bound)
        if self.ratio is not None and not (is_number(self.ratio) and self.ratio >= 0):
            raise InputError(f"Optimal(ratio): c2/c1, a number ≥ 0; got {self.ratio!r}")

    def weights(self, holdings: Holdings) -> Floats:
        """Spread the minimiser's importance over the samples."""
        return spread(self.importance(holdings), holdings)

    def importance(self, holdings: Holdings) -> Floats:
        """Give p*, one number per client."""
        if self.ratio is None:
            raise InputError(
                "Optimal(ratio): give c2/c1, or leave it to simulate(), which estimates it"
            )
        terms = ClientTerms(holdings)
        return least_bound(self.bound, terms, lambda noise: self._minimiser(noise, terms))

    def _minimiser(self, noise: Floats, terms: ClientTerms) -> Floats:
        """The importances that minimise the bound for a given noise of each client."""
        assert self.ratio is not None
        there = terms.holdings.collected > 0
        importance = np.zeros(len(there))
        importance[there] = minimise(noise[there], terms.drawable[there], self.ratio).importance
        return importance
