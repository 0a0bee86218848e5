"""How long a model remembers: τ rounds, from the curvature that its gradient noise meets.

Take a quadratic loss with curvature λ_k along direction k, and SGD with rate η whose gradients are
wrong in two ways: by an error that stays the same for the whole run (few samples: variance c_k/N)
and by one that is drawn anew in every round (noise: variance c_k·v). After T rounds, with x = ηλT,
they have cost

    few samples   ½ · c_k/λ_k · (1 − e^−x)² / N
    noise         ¼ · η · c_k · (1 − e^−2x) · v

Over all directions the sum is proportional to 1/N + v/τ with

    τ = Σ_k (c_k/λ_k)(1 − e^−x)²  /  (η/2 · Σ_k c_k (1 − e^−2x))

A direction that is flat (x → 0) remembers the whole run, τ = T; a steep one remembers τ = 2/(ηλ)
rounds, as for SGD that has come to rest. So the run's length caps the horizon by itself, and no
direction has to be called converged. With E local steps, η is E times the learning rate.

Written with g(x) = (1 − e^−x)/x it reads τ = T · Σ c_k λ_k g(x_k)² / Σ c_k λ_k g(2x_k).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headwater.randomness import Floats


@dataclass(frozen=True)
class Sums:
    """The two sums over a spectrum whose ratio is τ/T; those of several spectra add up.

    Attributes:
        kept: Σ_k c_k λ_k g(x_k)².
        drawn: Σ_k c_k λ_k g(2x_k).

    >>> one = np.ones(1)
    >>> round(100_000 * Sums.of(0.5 * one, one, learned=0.1 * 100_000).part, 3)  # 2 / (η λ)
    40.0
    >>> Sums.of(1e-9 * one, one, learned=0.1 * 100).part  # a flat direction remembers it all
    1.0
    """

    kept: float
    drawn: float

    @classmethod
    def of(cls, curvature: Floats, met: Floats, learned: float) -> Sums:
        """Add up over directions.

        Args:
            curvature: λ_k of each direction, at least 0.
            met: c_k λ_k, how much of the gradients' variance lies in that direction, times λ_k.
            learned: η·E·T, the learning rate times all steps of the run.
        """
        x = learned * curvature
        # Both sums divided by what they are for small x, η²T²·Σ c_k λ_k and η²T·Σ c_k λ_k, so that
        # flat directions need no case of their own.
        return cls(float(met @ np.square(_decayed(x))), float(met @ _decayed(2 * x)))

    @classmethod
    def mean(cls, several: Sequence[Sums]) -> Sums:
        """Of several spectra, or of one by several rules."""
        count = len(several)
        return cls(sum(s.kept for s in several) / count, sum(s.drawn for s in several) / count)

    @property
    def part(self) -> float:
        """τ/T, from 0 to 1; without any curvature nothing is forgotten."""
        return min(1.0, self.kept / self.drawn) if self.drawn > 0 else 1.0


def _decayed(x: Floats) -> Floats:
    """(1 − e^−x)/x, which is 1 where x is 0."""
    return np.divide(-np.expm1(-x), x, where=x > 0, out=np.ones_like(x))
