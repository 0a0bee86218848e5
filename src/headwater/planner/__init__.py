"""Who should count how much, and what it will cost: the bound on the true error and its exact minimisers."""

from headwater.planner.bound import BoundTerms, bound, bound_terms, effective_samples
from headwater.planner.constants import Constants, approximate_ratio
from headwater.planner.optimum import Optimum, minimise, optimal_importance

__all__ = [
    "BoundTerms",
    "Constants",
    "Optimum",
    "approximate_ratio",
    "bound",
    "bound_terms",
    "effective_samples",
    "minimise",
    "optimal_importance",
]
