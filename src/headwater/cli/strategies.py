"""Strategies as they are typed."""

from __future__ import annotations

from dataclasses import replace

from headwater.errors import InputError
from headwater.ledger.optimal import Optimal
from headwater.ledger.registry import NAMES, named
from headwater.ledger.strategies import Strategy

ALL = "fresh,historical,memory,uniform,optimal,remembered"


def parse_strategies(text: str, ratio: float | None) -> dict[str, Strategy]:
    """The strategies of a comma-separated list, by name.

    >>> parse_strategies("uniform, share-0.5", None)
    {'uniform': Uniform(), 'share-0.5': Share(historical=0.5)}
    """
    names = [name.strip().lower().replace("=", "-") for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"--strategies: at least one of {NAMES}")
    return {name: _one(name, ratio) for name in names}


def _one(name: str, ratio: float | None) -> Strategy:
    try:
        strategy = named(name)
    except InputError as error:
        raise InputError(f"--strategies: {error}") from None
    if ratio is not None and isinstance(strategy, Optimal) and strategy.ratio is None:
        return replace(strategy, ratio=ratio)
    return strategy
