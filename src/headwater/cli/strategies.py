"""Strategies as they are typed."""

from __future__ import annotations

import math
from dataclasses import replace

from headwater.errors import InputError
from headwater.ledger.optimal import Optimal
from headwater.ledger.registry import NAMES, named
from headwater.ledger.strategies import Strategy

ALL = "fresh, historical, memory, uniform, optimal, remembered"


def parse_strategies(text: str, ratio: float | None) -> dict[str, Strategy]:
    """The strategies of a comma-separated list, by name.

    >>> parse_strategies("uniform, share-0.5", None)
    {'uniform': Uniform(), 'share-0.5': Share(historical=0.5)}
    """
    names = [name.strip().lower().replace("=", "-") for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"--strategies: at least one of {NAMES}")
    found = {name: _one(name) for name in names}
    return found if ratio is None else _with_ratio(found, ratio)


def _one(name: str) -> Strategy:
    try:
        return named(name)
    except InputError as error:
        raise InputError(f"--strategies: {error}") from None


def _with_ratio(found: dict[str, Strategy], ratio: float) -> dict[str, Strategy]:
    """The strategies, with c2/c1 for those that want it."""
    if not 0 <= ratio < math.inf:
        raise InputError(f"--ratio: c2/c1, a number of at least 0; got {ratio:g}")
    asking = {
        name: replace(strategy, ratio=ratio)
        for name, strategy in found.items()
        if isinstance(strategy, Optimal) and strategy.ratio is None
    }
    if not asking:
        raise InputError(
            f"--ratio: {ratio:g} is for the strategies 'optimal' and 'sharp', and none of them is "
            "among --strategies; leave it out or add one"
        )
    return {**found, **asking}
