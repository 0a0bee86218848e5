"""How many samples a run learns from, and how much its rounds differ: as held, or as drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.ledger.moments import Moments
from headwater.randomness import Floats


@dataclass(frozen=True)
class Figures:
    """Effective samples, variability and drift, from second moments of the shares.

    Over the run sample i counts p̂_i = Σ_t q(t) a_i(t), a random number with mean p_i if rounds draw
    mini-batches or clients; :mod:`headwater.ledger.moments` says how random a_i(t) is.

    Attributes:
        sample_shares: p_i.
        importance: p_m.
        moments: E a_i(t)² and E u_m(t)², added up.
    """

    sample_shares: Floats
    importance: Floats
    moments: Moments

    @property
    def effective_samples(self) -> float:
        """N_eff = 1 / E Σ_i p̂_i²: how many samples of equal share would generalise as well.

        Draws of different rounds are independent, so E p̂_i² = p_i² + Σ_t q(t)² Var a_i(t).
        """
        return 1 / (self._squares + self.moments.redrawn)

    @property
    def variability(self) -> float:
        """Σ_t q(t) E Σ_i (a_i(t) − p_i)², in units of the per-sample gradient variance σ0².

        How far a round's gradient is from that of the objective, if clients have one distribution.
        """
        return _difference(self.moments.samples, self._squares)

    @property
    def drift(self) -> float:
        """Σ_t q(t) E Σ_m (u_m(t) − p_m)²: what clients of different distributions add."""
        return _difference(self.moments.clients, float(np.square(self.importance).sum()))

    @property
    def _squares(self) -> float:
        return float(np.square(self.sample_shares).sum())


def _difference(larger: float, smaller: float) -> float:
    """Subtract, and call zero what is only rounding: what never changes has no variability."""
    return larger - smaller if larger > smaller * (1 + 1e-12) else 0.0
