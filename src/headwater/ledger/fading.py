"""Fading: old samples count less, for streams whose distribution changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.errors import InputError
from headwater.ledger.checks import is_number
from headwater.ledger.holdings import Holdings
from headwater.ledger.strategies import Weights
from headwater.randomness import Floats


@dataclass(frozen=True)
class Fading:
    """A sample's weight is halved with every ``half_life`` rounds since it arrived.

    λ(t) = 2^(−(t − arrival) / half_life). The paper's bounds assume that a client's distribution
    stays as it is; where it changes, what is old misleads, and this strategy trades some of the
    samples for being up to date.

    Attributes:
        half_life: In rounds, above 0. A long one comes near ``ByMemory``.

    Example:
        >>> from headwater import Keep, Ledger, Trace
        >>> ledger = Ledger.of([3], Trace([1, 1, 1]), Keep(), Fading(half_life=1), rounds=3)
        >>> ledger.weights_at(3)
        array([0.25, 0.5 , 1.  ])
    """

    half_life: float = 10.0

    def __post_init__(self) -> None:
        if not is_number(self.half_life) or not 0 < self.half_life < np.inf:
            raise InputError(
                f"Fading(half_life): a number of rounds above 0; got {self.half_life!r}"
            )

    def weights(self, holdings: Holdings) -> Weights:
        """Give the weights of a round; what has not arrived yet has none."""

        def at(round: int) -> Floats:
            age = np.maximum(round - holdings.enter, 0)
            return np.where(holdings.enter <= round, 0.5 ** (age / self.half_life), 0.0)

        return at
