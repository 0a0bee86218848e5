"""Ending a run that no longer gets better."""

from __future__ import annotations

import math

from headwater.errors import InputError
from headwater.learning.algorithm import Record
from headwater.learning.callbacks.callback import Beginning, Callback, Moment
from headwater.learning.settings import number, whole


class EarlyStopping(Callback):
    """End the run when a metric has not improved for some tests.

    The run's model is the last one. A run that goes on from a checkpoint counts its earlier tests
    again, so it ends after the same round as one that was never stopped.

    Args:
        metric: a metric's name, or "loss".
        patience: how many tests in a row may be without improvement.
        least: what counts as an improvement, in the metric's units.
        better: "lower" or "higher"; None: by name, for those that are known.

    Example:
        >>> stop = EarlyStopping("accuracy", patience=3)
        >>> stop.better
        'higher'
    """

    _KNOWN = {"loss": "lower", "accuracy": "higher", "mae": "lower", "r2": "higher"}  # noqa: RUF012

    def __init__(
        self,
        metric: str = "loss",
        patience: int = 5,
        least: float = 0.0,
        better: str | None = None,
    ) -> None:
        self.metric = metric
        self.patience = whole("EarlyStopping(patience)", patience)
        self.least = number("EarlyStopping(least)", least)
        self.better = better or self._KNOWN.get(metric)
        if self.better not in ("lower", "higher"):
            raise InputError(
                f"EarlyStopping(better): 'lower' or 'higher' for {metric!r}; got {better!r}"
            )
        self._best, self._waited = -math.inf, 0

    def begin(self, beginning: Beginning) -> None:
        """Start to count, with the tests of earlier rounds."""
        if self.metric not in beginning.metrics:
            raise InputError(
                f"EarlyStopping(metric): one of {', '.join(beginning.metrics)}; got {self.metric!r}"
            )
        self._best, self._waited = -math.inf, 0
        for record in beginning.history:
            self._count(record)

    def after_round(self, moment: Moment) -> bool:
        """Count a test; is it enough?"""
        self._count(moment.record)
        return self.over

    @property
    def over(self) -> bool:
        """Has it waited long enough?"""
        return self._waited >= self.patience

    def _count(self, record: Record) -> None:
        if not record.tested:
            return
        value = record.value(self.metric)
        # NaN is no improvement: it is not above anything.
        gain = value if self.better == "higher" else -value
        if gain > self._best + self.least or (self._best == -math.inf and gain > -math.inf):
            self._best, self._waited = gain, 0
        else:
            self._waited += 1
