"""Means over seeds: an interval, and one line of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from headwater.experiments.training_run import Outcome


@dataclass(frozen=True)
class Interval:
    """A mean over seeds with its 95 % confidence interval.

    Attributes:
        mean: The mean.
        ci95: Half the width of the interval (Student's t); None for one seed.
    """

    mean: float
    ci95: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """From one value per seed.

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
class Line:
    """One line of a table: a strategy with the seeds that are finished.

    Attributes:
        name: What it is called.
        about: What it is, in a few words.
        learning_rate: The rate η of its runs.
        outcomes: Seed -> what came out.
        planned: How many seeds there will be.
    """

    name: str
    about: str
    learning_rate: float
    outcomes: Mapping[int, Outcome]
    planned: int

    @property
    def accuracy(self) -> Interval:
        """Test score of the last iterate; an accuracy in all of the paper's tables."""
        return self.over(lambda outcome: outcome.score)

    @property
    def late_accuracy(self) -> Interval:
        """Mean test score of the last tenth of the tests."""
        return self.over(lambda outcome: outcome.late_score)

    @property
    def average_accuracy(self) -> Interval:
        """Test score of Algorithm 1's average."""
        return self.over(lambda outcome: outcome.average_score)

    @property
    def measure(self) -> str:
        """What the scores are, by name."""
        return next((outcome.measure for outcome in self.outcomes.values()), "accuracy")

    def metric(self, name: str, *, worst: bool = False) -> Interval | None:
        """Any metric by its name, or of the worst tenth of the clients; None: a seed has none."""
        found = [(o.worst if worst else o.metrics).get(name) for o in self.outcomes.values()]
        known = [value for value in found if value is not None]
        return Interval.of(known) if known and len(known) == len(found) else None

    def over(self, value: Callable[[Outcome], float]) -> Interval:
        """Any number of the outcomes, over the finished seeds."""
        return Interval.of([value(outcome) for outcome in self.outcomes.values()])

    def mean(self, name: str) -> float:
        """Mean of a number of the outcomes by its name."""
        return self.over(lambda outcome: float(getattr(outcome, name))).mean

    def minus(self, other: Line) -> Interval | None:
        """Difference in late accuracy, seed by seed; None if they share no seed."""
        common = sorted(set(self.outcomes) & set(other.outcomes))
        gaps = [self.outcomes[s].late_score - other.outcomes[s].late_score for s in common]
        return Interval.of(gaps) if gaps else None
