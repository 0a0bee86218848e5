"""Strategies as they are typed."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.errors import InputError
from headwater.ledger.optimal import Optimal
from headwater.ledger.registry import NAMES, named
from headwater.ledger.remembered import Remembered
from headwater.ledger.strategies import Strategy

if TYPE_CHECKING:
    from headwater.learning.federation import Federation

_log = logging.getLogger(__name__)
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


def measurable(
    found: dict[str, Strategy], federations: Iterable[Federation], rounds: int, *, told: bool
) -> dict[str, Strategy]:
    """The strategies that can measure what they need in a run of these federations.

    Args:
        found: strategies by name.
        federations: that they are to learn from.
        rounds: T.
        told: the user has named them; then one that cannot is an error, found before any run.
    """
    from headwater.learning.estimation.heterogeneity import too_few

    asking = [
        name
        for name, strategy in found.items()
        if isinstance(strategy, Remembered) and strategy.heterogeneity is None
    ]
    whys = (too_few(federation.holdings(rounds, 0)) for federation in federations) if asking else ()
    why = next(filter(None, whys), "")
    if not why:
        return found
    text = f"{why}; say it, as in --strategies uniform,remembered-0.1"
    if told:
        raise InputError(f"--strategies: {asking[0]}: {text}")
    _log.warning("%s is left out: %s", asking[0], text)
    return {name: strategy for name, strategy in found.items() if name not in asking}


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
