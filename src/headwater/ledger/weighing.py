"""Checks of what a strategy answers, before anything is computed with it."""

from __future__ import annotations

import numpy as np

from headwater.errors import InputError
from headwater.ledger.exact_sums import LARGEST_RATIO
from headwater.ledger.holdings import Holdings
from headwater.ledger.strategies import Weights
from headwater.randomness import Floats

COMFORTABLE = 1e140
"""Weights up to this size, and their inverses, can be added and multiplied without overflow."""


def usable(weights: object, holdings: Holdings, who: str) -> Weights:
    """Check a strategy's weights, and bring those of extreme size to a size one can compute with.

    Args:
        weights: what the strategy gave: an array, or a function of the round.
        holdings: the samples that are weighed.
        who: the strategy's name, for the message.
    """
    if callable(weights):
        return weights
    found = _numbers(weights, holdings, f"of {who}")
    _check_ratio(found, holdings, f"of {who}")
    largest = float(found.max())
    if largest > COMFORTABLE or 0 < largest < 1 / COMFORTABLE:
        # Only ratios matter, and a power of two leaves all of them as they are.
        found = np.ldexp(found, -int(np.frexp(largest)[1]))
    return found


def usable_in_round(weights: object, holdings: Holdings, round: int) -> Floats:
    """Check the weights that a function of the round gave."""
    found = _numbers(weights, holdings, f"in round {round}")
    if found.max() > COMFORTABLE:
        raise InputError(
            f"weights in round {round}: numbers up to {COMFORTABLE:g}; got {found.max():g} "
            "(only ratios matter: divide all of them by the same number)"
        )
    return found


def _numbers(weights: object, holdings: Holdings, who: str) -> Floats:
    """One finite number ≥ 0 per sample."""
    if not isinstance(weights, np.ndarray) or weights.dtype.kind not in "iuf":
        kind = weights.dtype if isinstance(weights, np.ndarray) else type(weights).__name__
        raise InputError(
            f"weights {who}: an array of numbers, or a function of the round that gives one; got "
            f"{kind}"
        )
    if weights.shape != holdings.enter.shape:
        raise InputError(
            f"weights {who}: {len(holdings.enter)} samples, but an array of shape {weights.shape}"
        )
    found = weights.astype(np.float64, copy=False)
    # A NaN fails both comparisons, so that two quick passes find whatever is wrong.
    if not (found.min() >= 0 and found.max() < np.inf):
        i = int(np.argmax(~((found >= 0) & (found < np.inf))))
        raise InputError(
            f"weights {who}: finite numbers ≥ 0; sample {i} of client {holdings.client[i]} has "
            f"{found[i]}"
        )
    return found


def _check_ratio(weights: Floats, holdings: Holdings, who: str) -> None:
    """Refuse weights of which some vanish beside others."""
    smallest = weights.min(initial=np.inf, where=(weights > 0) & (holdings.rounds_held > 0))
    if weights.max() / LARGEST_RATIO > smallest:
        raise InputError(
            f"weights {who}: some are more than {LARGEST_RATIO:g} times as large as others; give 0 "
            "to samples that shall not count"
        )
