"""Who should count how much, and what it will cost: the bound on the true error and its exact
minimisers."""

from headwater.planner.constants import Constants, approximate_ratio
from headwater.planner.error_bound import BoundTerms, bound, bound_terms, effective_samples
from headwater.planner.optimum import Optimum, minimise, optimal_importance
from headwater.planner.target import TargetOptimum, optimal_for_target

__all__ = [
    "BoundTerms",
    "Constants",
    "Optimum",
    "TargetOptimum",
    "approximate_ratio",
    "bound",
    "bound_terms",
    "effective_samples",
    "minimise",
    "optimal_for_target",
    "optimal_importance",
]
