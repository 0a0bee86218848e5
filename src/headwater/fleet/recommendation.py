"""The recommendation in one sentence of plain English."""

from __future__ import annotations

import math

from headwater.fleet.comparison import Bound, Comparison

_SURE = 0.9995  # a share that is printed as 100 %


def recommend(comparison: Comparison) -> str:
    """Say who should count how much, under which strategy, and what it saves.

    >>> from headwater.fleet import Fleet, Outlook, compare
    >>> from headwater.fleet.fleet import Kind
    >>> old = Kind("old", 400, False, count=25)
    >>> fleet = Fleet.of([old, Kind("new", 1600, True, 16, 16, count=25)])
    >>> print(recommend(compare(Outlook.of(fleet, rounds=100), ratio=0.15)))
    Give the 25 historical clients 45.2 % of the importance and the 25 fresh clients 54.8 %, as
    Optimal(ratio=0.15) does: the bound is then 7 % below Uniform's and 14 % below Historical's.
    """
    outlook, best = comparison.outlook, comparison.best
    fresh = round(outlook.fresh_clients)
    old = round(float(outlook.count.sum())) - fresh
    if not old or not fresh:
        kind = "fresh" if fresh else "historical"
        who = f"All {old + fresh:,} clients are {kind}"
        return f"{who}: count them as {call(comparison)} does{_gain(comparison)}."
    if best.historical > _SURE:
        who = f"Learn from the {_clients(old, 'historical')} alone, as Historical() does"
        why = f"at c2/c1 = {comparison.ratio:.3g} what streams add is not worth their noise"
        return f"{who}: {why}."
    give = f"Give the {_clients(old, 'historical')} {100 * best.historical:.1f} % of the importance"
    rest = f"the {_clients(fresh, 'fresh')} {100 * (1 - best.historical):.1f} %"
    return f"{give} and {rest}, as {call(comparison)} does{_gain(comparison)}."


def call(comparison: Comparison) -> str:
    """The strategy as it is written in Python."""
    if comparison.ratio == math.inf:
        return "Uniform()"
    return _call(comparison.ratio, comparison.bound)


def _call(ratio: float, bound: Bound) -> str:
    return (
        f"Optimal(ratio={ratio:.4g})"
        if bound == "paper"
        else f'Optimal(ratio={ratio:.4g}, bound="sharp")'
    )


def _clients(number: int, kind: str) -> str:
    return f"{number:,} {kind} clients" if number > 1 else f"one {kind} client"


def _gain(comparison: Comparison) -> str:
    """How far the bound is below that of the two obvious strategies, where it is."""
    parts = []
    for name in ("Uniform", "Historical"):
        other = next((p.total for p in comparison.prospects if p.strategy == name), 0.0)
        if 0 < other < math.inf and comparison.best.total < 0.995 * other:
            parts.append(f"{100 * (1 - comparison.best.total / other):.0f} % below {name}'s")
    return f": the bound is then {' and '.join(parts)}" if parts else ""
