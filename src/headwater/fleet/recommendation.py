"""The recommendation in one sentence of plain English."""

from __future__ import annotations

import math

from headwater.fleet.comparison import Comparison

_SURE = 0.9995  # a share that is printed as 100 %


def recommend(comparison: Comparison) -> str:
    """Say who should count how much, under which strategy, and what it saves.

    >>> from headwater.fleet import Device, Fleet, Outlook, compare
    >>> old = Device("old", 400, False, count=25)
    >>> fleet = Fleet.of([old, Device("new", 1600, True, 16, 16, count=25)])
    >>> print(recommend(compare(Outlook.of(fleet, rounds=100), ratio=0.15)))
    Give the 25 historical clients 45.2 % of the importance and the 25 fresh clients 54.8 %, as
    Optimal(ratio=0.15) does: the bound is then 7 % below that of uniform and
    14 % below that of historical.
    """
    outlook, best = comparison.outlook, comparison.best
    fresh = round(outlook.fresh_clients)
    old = round(outlook.clients) - fresh
    if not old or not fresh:
        who = f"All {old + fresh:,} clients are {'fresh' if fresh else 'historical'}"
        return f"{who}: count them as {call(comparison)} does{_gain(comparison)}."
    if best.historical > _SURE:
        who = f"Learn from the {_clients(old, 'historical')} alone, as Historical() does"
        why = f"at c2/c1 = {comparison.ratio:.3g} what streams add is not worth their noise"
        return f"{who}: {why}."
    give = f"Give the {_clients(old, 'historical')} {100 * best.historical:.1f} % of the importance"
    rest = f"the {_clients(fresh, 'fresh')} {100 * (1 - best.historical):.1f} %"
    return f"{give} and {rest}, as {call(comparison)} does{_gain(comparison)}."


def remember(comparison: Comparison) -> str:
    """Say what the other rule would do, and what it takes for granted."""
    seen = comparison.remembered
    found = comparison["remembered"]
    rounds = f"{seen.horizon:.3g} of {comparison.outlook.rounds:,} rounds"
    settings = f"horizon={seen.strategy.horizon:g}, heterogeneity={seen.heterogeneity:.3g}"
    return (
        f"By what a model remembers ({rounds}, clients differ by {seen.heterogeneity:.3g}) the "
        f"historical clients would get {100 * found.historical:.1f} %, as "
        f"Remembered({settings}) does."
    )


def call(comparison: Comparison) -> str:
    """The recommended strategy as it is written in Python."""
    if comparison.ratio == math.inf:
        return "Uniform()"
    ratio = f"ratio={comparison.ratio:.4g}"
    return (
        f"Optimal({ratio})" if comparison.bound == "paper" else f'Optimal({ratio}, bound="sharp")'
    )


def _clients(number: int, kind: str) -> str:
    return f"{number:,} {kind} clients" if number > 1 else f"one {kind} client"


def _gain(comparison: Comparison) -> str:
    """How far the bound is below that of the two obvious strategies, where it is."""
    best = comparison.best.total
    parts = []
    for name in ("uniform", "historical"):
        other = comparison[name].total if name in comparison else 0.0
        if 0 < other < math.inf and best < 0.995 * other:
            parts.append(f"{100 * (1 - best / other):.0f} % below that of {name}")
    return f": the bound is then {' and '.join(parts)}" if parts else ""
