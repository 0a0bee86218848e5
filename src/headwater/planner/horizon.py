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

import numpy as np

from headwater.randomness import Floats


def remembered_rounds(curvature: Floats, noise: Floats, rate: float, rounds: int) -> float:
    """τ, the number of rounds over which the model averages the noise of its gradients.

    Args:
        curvature: λ_k of each direction, at least 0.
        noise: c_k, how much of the gradients' variance lies in that direction.
        rate: η·E, the learning rate times the local steps of a round.
        rounds: T.

    Returns:
        A number of rounds from 0 to T.

    >>> one = np.ones(1)
    >>> round(remembered_rounds(0.5 * one, one, rate=0.1, rounds=100_000), 3)  # 2 / (η λ)
    40.0
    >>> remembered_rounds(np.zeros(1), one, rate=0.1, rounds=100)  # a flat direction: T
    100.0
    """
    x = rate * rounds * curvature
    # Both sums divided by what they are for small x, η²T²·Σ c_k λ_k and η²T·Σ c_k λ_k, so that
    # flat directions need no case of their own.
    weight = noise * curvature
    if not weight.any():
        return float(rounds)
    return float(rounds * (weight @ np.square(_decayed(x))) / (weight @ _decayed(2 * x)))


def _decayed(x: Floats) -> Floats:
    """(1 − e^−x)/x, which is 1 where x is 0."""
    return np.divide(-np.expm1(-x), x, where=x > 0, out=np.ones_like(x))
