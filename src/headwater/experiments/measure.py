"""What the runs of a task are compared by: accuracy, mean absolute error, or the loss itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.experiments.over_seeds import Interval

if TYPE_CHECKING:
    from headwater.learning.losses import Loss


@dataclass(frozen=True)
class Measure:
    """One number that says how good a model is.

    Attributes:
        name: What it is called where results are stored.
        words: What it is called in tables and pictures.
        higher: Whether more is better.
        percent: Whether it is a fraction, shown in percent.

    Example:
        >>> ACCURACY.show(Interval(0.753, 0.02)), ERROR.show(Interval(0.5623, None))
        ('75.3 ± 2.0', '0.562')
    """

    name: str
    words: str
    higher: bool
    percent: bool

    @classmethod
    def named(cls, name: str) -> Measure:
        """The measure of a stored result."""
        return _KNOWN.get(name) or cls(name, name, higher=False, percent=False)

    @classmethod
    def of(cls, loss: Loss) -> Measure:
        """What runs that learn by this loss are compared by: its first metric, or else the loss."""
        from headwater.learning.metrics import metrics_for  # stored results need no PyTorch

        return cls.named(next(iter(metrics_for(loss)), "loss"))

    @property
    def unit(self) -> str:
        """What follows the name in a heading."""
        return " %" if self.percent else ""

    @property
    def scale(self) -> float:
        """What a value is multiplied with to be shown."""
        return 100.0 if self.percent else 1.0

    def show(self, interval: Interval) -> str:
        """A mean over seeds, as tables show it."""
        if self.percent:
            return str(interval)
        spread = "" if interval.ci95 is None else f" ± {interval.ci95:.3f}"
        return f"{interval.mean:.3f}{spread}"


ACCURACY = Measure("accuracy", "Accuracy", higher=True, percent=True)
ERROR = Measure("mae", "Mean abs. error", higher=False, percent=False)
LOSS = Measure("loss", "Loss", higher=False, percent=False)
R2 = Measure("r2", "R²", higher=True, percent=False)
_KNOWN = {measure.name: measure for measure in (ACCURACY, ERROR, LOSS, R2)}
