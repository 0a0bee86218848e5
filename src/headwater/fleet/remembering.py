"""What a model that forgets can remember of a fleet: the second rule, which needs no c2/c1.

A row of k equal clients with importance P together: each has P/k, so that a sum Σ_m p_m² a_m over
its clients is P²·a/k. Rows are therefore as exact as clients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.fleet.outlook import Outlook
from headwater.ledger.remembered import Remembered
from headwater.planner import remembered_importance, remembered_samples
from headwater.randomness import Floats


@dataclass(frozen=True)
class Remembering:
    """:class:`headwater.Remembered` and the fleet that it is to weigh.

    Attributes:
        strategy: its horizon and heterogeneity; clients are alike where it does not say.
        outlook: the fleet.
    """

    strategy: Remembered
    outlook: Outlook

    @property
    def horizon(self) -> float:
        """τ, over how many rounds the model forgets."""
        return self.strategy.rounds(self.outlook.rounds)

    @property
    def heterogeneity(self) -> float:
        """ρ, the variance between clients over that within."""
        return self.strategy.heterogeneity or 0.0

    @property
    def importance(self) -> Floats:
        """The importance of each row, all clients of the row together; the minimiser of Q."""
        terms, count = self.outlook.terms, self.outlook.count
        each = remembered_importance(
            terms.samples,
            terms.noise,
            self.horizon,
            self.heterogeneity,
            absence=terms.absence,
            clients=count,
        )
        return count * each

    def error(self, importance: Floats) -> float:
        """Q(p) at other importances of the rows, in units of σ0²/(2λ)."""
        terms, count = self.outlook.terms, self.outlook.count
        squares = np.square(importance) / count
        alike = squares / remembered_samples(terms.samples, terms.noise, self.horizon)
        # Every client matters the same: (P/k − 1/M)² for each of the k clients of a row.
        apart = count * np.square(importance / count - 1 / self.outlook.clients)
        away = squares * terms.absence / self.horizon
        return float(alike.sum() + self.heterogeneity * (apart + away).sum())
