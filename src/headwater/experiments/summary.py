"""Rows of a table: each strategy's result over the seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from headwater.experiments.cells import Cell, Result
from headwater.learning.algorithm import DivergedError


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and the half width of its 95 % confidence interval (Student's t; None for
    one seed)."""

    mean: float
    ci95: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """From one value a seed.

        >>> Interval.of([0.5, 0.6, 0.7])
        Interval(mean=0.6, ci95=0.248...)
        """
        n = len(values)
        if n == 1:
            return cls(float(values[0]), None)
        half = student.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n)
        return cls(float(np.mean(values)), float(half))

    def __str__(self) -> str:
        spread = "" if self.ci95 is None else f" ± {100 * self.ci95:.1f}"
        return f"{100 * self.mean:.1f}{spread}"


@dataclass(frozen=True)
class Row:
    """One strategy."""

    strategy: str
    learning_rate: float
    accuracy: Interval
    average_accuracy: Interval
    loss: Interval
    historical_share: float
    effective_samples: float
    variability: float
    seconds: float

    @classmethod
    def of(cls, strategy: str, learning_rate: float, results: Sequence[Result]) -> Row:
        """From one result a seed."""

        def over(name: str) -> list[float]:
            return [getattr(result, name) for result in results]

        accuracy, average, loss = (
            Interval.of(over(name)) for name in ("accuracy", "average_accuracy", "loss")
        )
        share, effective, variability, seconds = (
            float(np.mean(over(name)))
            for name in ("historical_share", "effective_samples", "variability", "seconds")
        )
        return cls(
            strategy, learning_rate, accuracy, average, loss, share, effective, variability, seconds
        )

    def as_json(self) -> dict[str, Any]:
        """Plain numbers and names."""
        return asdict(self)


def best_rate(results: Iterable[tuple[Cell, Result]]) -> float:
    """The learning rate with the best mean validation accuracy; of equals the one with the smallest
    loss."""
    scores: dict[float, list[tuple[float, float]]] = {}
    for cell, result in results:
        scores.setdefault(cell.learning_rate, []).append((result.accuracy, -result.loss))
    means = {rate: tuple(np.mean(values, axis=0)) for rate, values in scores.items()}
    rate = max(means, key=lambda r: means[r])
    if means[rate][0] == 0.0:
        raise DivergedError(
            "every learning rate of the grid diverged; give a smaller one with --learning-rate"
        )
    return rate
