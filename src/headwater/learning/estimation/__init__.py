"""What is found before the first round: the paper's ratio c2/c1, and how much clients differ."""

from headwater.learning.estimation.heterogeneity import Heterogeneity, measure_heterogeneity
from headwater.learning.estimation.measured import Measurement, Uncertain, measure
from headwater.learning.estimation.ratio import Estimate, estimate
from headwater.learning.estimation.resolution import resolve

__all__ = [
    "Estimate",
    "Heterogeneity",
    "Measurement",
    "Uncertain",
    "estimate",
    "measure",
    "measure_heterogeneity",
    "resolve",
]
