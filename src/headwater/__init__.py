"""Headwater: one model from many data streams, on devices that can keep only a few samples each.

The names below are loaded when they are first used, so that the content-free side (arrivals, memory, weights,
ledger, planner) is there at once and PyTorch only when something is learned.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "InputError": "errors",
    "Once": "arrivals", "Constant": "arrivals", "Poisson": "arrivals", "Trace": "arrivals", "Window": "arrivals",
    "Keep": "memory", "Fifo": "memory", "Reservoir": "memory",
    "Uniform": "strategies", "Historical": "strategies", "Fresh": "strategies", "ByMemory": "strategies",
    "Share": "strategies", "Importance": "strategies", "Given": "strategies",
    "Optimal": "optimal", "optimal_importance": "planner", "bound": "planner",
    "Holdings": "holdings", "unroll": "holdings", "Ledger": "ledger",
    "Client": "federation", "Federation": "federation", "Part": "federation",
    "Ball": "projection", "Box": "projection", "cross_entropy": "losses", "accuracy": "losses",
    "evaluate": "evaluation", "simulate": "simulation", "Run": "simulation", "Record": "learner",
    "DivergedError": "learner",
}  # fmt: skip

__version__ = "0.1.0"
__all__ = sorted(_HOME)  # noqa: PLE0605 (a list of names, made from the table above)

if TYPE_CHECKING:
    from headwater.arrivals import Constant as Constant
    from headwater.arrivals import Once as Once
    from headwater.arrivals import Poisson as Poisson
    from headwater.arrivals import Trace as Trace
    from headwater.arrivals import Window as Window
    from headwater.errors import InputError as InputError
    from headwater.evaluation import evaluate as evaluate
    from headwater.federation import Client as Client
    from headwater.federation import Federation as Federation
    from headwater.federation import Part as Part
    from headwater.holdings import Holdings as Holdings
    from headwater.holdings import unroll as unroll
    from headwater.learner import DivergedError as DivergedError
    from headwater.learner import Record as Record
    from headwater.ledger import Ledger as Ledger
    from headwater.losses import accuracy as accuracy
    from headwater.losses import cross_entropy as cross_entropy
    from headwater.memory import Fifo as Fifo
    from headwater.memory import Keep as Keep
    from headwater.memory import Reservoir as Reservoir
    from headwater.optimal import Optimal as Optimal
    from headwater.planner import bound as bound
    from headwater.planner import optimal_importance as optimal_importance
    from headwater.projection import Ball as Ball
    from headwater.projection import Box as Box
    from headwater.simulation import Run as Run
    from headwater.simulation import simulate as simulate
    from headwater.strategies import ByMemory as ByMemory
    from headwater.strategies import Fresh as Fresh
    from headwater.strategies import Given as Given
    from headwater.strategies import Historical as Historical
    from headwater.strategies import Importance as Importance
    from headwater.strategies import Share as Share
    from headwater.strategies import Uniform as Uniform


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"headwater.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOME]
