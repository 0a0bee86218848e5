"""Who should count how much: the bound on the true error and its exact minimisers. NumPy only."""

from headwater.planner.constants import Constants
from headwater.planner.error_bound import BoundTerms, bound, bound_terms, effective_samples
from headwater.planner.optimum import Optimum, minimise, optimal_importance
from headwater.planner.remembered import (
    remembered_error,
    remembered_importance,
    remembered_samples,
    remembered_share,
)
from headwater.planner.slack import exact_noise, ratio_at
from headwater.planner.target import TargetOptimum, optimal_for_target

__all__ = [
    "BoundTerms",
    "Constants",
    "Optimum",
    "TargetOptimum",
    "bound",
    "bound_terms",
    "effective_samples",
    "exact_noise",
    "minimise",
    "optimal_for_target",
    "optimal_importance",
    "ratio_at",
    "remembered_error",
    "remembered_importance",
    "remembered_samples",
    "remembered_share",
]
