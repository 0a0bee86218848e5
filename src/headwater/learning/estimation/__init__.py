"""The ratio c2/c1 from a part of the historical samples: as the paper bounds it, or measured."""

from headwater.learning.estimation.measured import Measurement, Uncertain, measure
from headwater.learning.estimation.ratio import Estimate, estimate, resolve

__all__ = ["Estimate", "Measurement", "Uncertain", "estimate", "measure", "resolve"]
