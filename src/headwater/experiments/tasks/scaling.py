"""Features brought to mean 0 and deviation 1, by what has been seen before a run begins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LIMIT = 5.0
"""In deviations: a stream may bring what history has never seen, and one sample must not throw a
model off its course."""


NOTHING = 1e-4
"""In deviations: a feature whose values differ by less is as good as constant to a model."""


def outlier(values: Floats) -> int | None:
    """The row of a value beside which a feature would be scaled to nothing; None: there is none.

    That is so if nine tenths of the values, counted without those that are just the median, are
    nearer to it than :data:`NOTHING` deviations. Deviations are decided by the other tenth then: by
    1e30 that stands for a missing value, or by a slip of the decimal point. Heavy tails are no such
    thing: a log-normal variable passes whose logarithm deviates by 3.

    Example:
        >>> outlier(np.array([20.5, 21.0, 1e30, 20.0, 21.5])), outlier(np.array([0.0, 0.0, 5.0]))
        (2, None)
    """
    away = np.abs(values - np.median(values))
    largest = away.max(initial=0.0)
    if not 0 < largest < np.inf:
        return None if largest == 0 else int(np.argmax(np.abs(values)))
    moved = away[away > 0] / largest
    usual = np.quantile(moved, 0.9, method="lower")
    deviation = np.sqrt((moved**2).sum() / len(values))
    return int(np.argmax(away)) if usual < NOTHING * deviation else None


@dataclass(frozen=True, eq=False)
class Scaling:
    """Mean and deviation of each feature.

    Example:
        >>> history = np.array([[1.0, 7.0], [3.0, 7.0], [np.nan, 7.0]])
        >>> Scaling.of(history)(np.array([[4.0, 7.0], [np.nan, 8.0], [99.0, 7.0]]))
        array([[2., 0.],
               [0., 1.],
               [5., 0.]], dtype=float32)
    """

    mean: Floats
    deviation: Floats

    @classmethod
    def of(cls, seen: Floats) -> Scaling:
        """From rows of features; unknown values (NaN) do not count."""
        known = np.isfinite(seen)
        count = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, seen, 0.0).sum(axis=0) / count
        variance = (np.where(known, seen - mean, 0.0) ** 2).sum(axis=0) / count
        # A feature that has never moved has no scale of its own: it keeps its unit.
        return cls(mean, np.where(variance > 0, np.sqrt(variance), 1.0))

    def __call__(self, features: Floats) -> NDArray[np.float32]:
        """Features as a model is fed them: scaled, limited, and 0 where unknown."""
        scaled = np.clip((features - self.mean) / self.deviation, -LIMIT, LIMIT)
        return np.where(np.isfinite(scaled), scaled, 0.0).astype(np.float32)
