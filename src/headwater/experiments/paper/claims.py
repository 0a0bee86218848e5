"""The paper's claims, checked against stored tables; verdicts are computed, not written by hand.

Accuracies are means of the last tenth of a run's tests: the last iterate alone is noisy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headwater.experiments.over_seeds import Interval, Line
from headwater.experiments.paper.grid import BEST, lines_with_best
from headwater.experiments.paper.published import DATASETS
from headwater.experiments.table import Table

HOLDS, NOISE, FAILS, ONE_SEED = "holds", "within noise", "does not hold", "one seed"
BASELINES = ("Fresh", "Historical", "Uniform")
RULES = ("Remembered", "Quarter", "Ours", "Sharp", "Measured", "Sharp, measured", "Printed ratio")
"""Ways to choose p_hist without a grid."""

Steps = Callable[[float, float, float], tuple[float, float]]
"""The gaps at 5, 20 and 50 % -> two differences that are above zero if the claim holds."""


@dataclass(frozen=True)
class Finding:
    """One claim at one place.

    Attributes:
        where: Data set, and fraction if it is about one table.
        verdict: Whether it holds, is within noise, does not hold, or rests on one seed.
        evidence: The numbers.
    """

    where: str
    verdict: str
    evidence: str


def place(table: Table) -> str:
    """Data set and fraction."""
    return f"{DATASETS[table.task]}, {100 * table.setup.historical:g} %"


def points(gap: Interval) -> str:
    """A difference of accuracies in percentage points.

    >>> points(Interval(0.0512, 0.004)), points(Interval(-0.01, None))
    ('+5.1 ± 0.4 pp', '-1.0 pp (one seed)')
    """
    spread = " pp (one seed)" if gap.ci95 is None else f" ± {100 * gap.ci95:.1f} pp"
    return f"{100 * gap.mean:+.1f}{spread}"


def verdict(gap: Interval, *, strictly: bool) -> str:
    """Is a difference above zero (``strictly``), or at least not below it?

    >>> verdict(Interval(0.02, 0.01), strictly=True), verdict(Interval(0.02, 0.03), strictly=True)
    ('holds', 'within noise')
    >>> verdict(Interval(0.0, 0.0), strictly=False), verdict(Interval(-0.02, 0.01), strictly=False)
    ('holds', 'does not hold')
    >>> verdict(Interval(0.02, 0.03), strictly=False)
    'within noise'
    >>> verdict(Interval(0.02, None), strictly=True)
    'one seed'
    """
    if gap.ci95 is None:
        return ONE_SEED
    if gap.mean > gap.ci95 or (not strictly and gap.mean == gap.ci95):
        return HOLDS
    return NOISE if abs(gap.mean) <= gap.ci95 else FAILS


def fresh_is_never_best(tables: Sequence[Table]) -> list[Finding]:
    """Working only with new data is never best."""
    found = []
    for table in tables:
        others = [line for name, line in table.lines.items() if name != "Fresh"]
        fresh = table.lines.get("Fresh")
        if fresh and others:
            best = max(others, key=lambda line: line.late_accuracy.mean)
            found += _difference(table, best, fresh, strictly=True)
    return found


def ours_reaches_the_baselines(tables: Sequence[Table]) -> list[Finding]:
    """Ours is at least as good as the best of Fresh, Historical and Uniform."""
    found = []
    for table in tables:
        baselines = [table.lines[name] for name in BASELINES if name in table.lines]
        ours = table.lines.get("Ours")
        if ours and len(baselines) == len(BASELINES):
            best = max(baselines, key=lambda line: line.late_accuracy.mean)
            found += _difference(table, ours, best, strictly=False)
    return found


def no_baseline_is_always_good(tables: Sequence[Table]) -> list[Finding]:
    """Neither Uniform nor Historical is always good: each falls short of the grid somewhere."""
    found = []
    for name in ("Uniform", "Historical"):
        gaps = [(g, t) for t in tables if (g := gap_to_best(t, name)) is not None]
        if gaps:
            worst, table = max(gaps, key=lambda pair: pair[0].mean)
            where = f"{name} over {len(gaps)} table{'s' * (len(gaps) > 1)}"
            evidence = f"largest gap {BEST} − {name}: {points(worst)} at {place(table)}"
            found.append(Finding(where, verdict(worst, strictly=True), evidence))
    return found


def historical_gap_shrinks(tables: Sequence[Table]) -> list[Finding]:
    """The gap between Historical and the best of the grid shrinks as N_hist/N grows."""
    return _over_fractions(tables, "Historical", lambda a, b, c: (a - b, b - c))


def uniform_gap_rises_and_falls(tables: Sequence[Table]) -> list[Finding]:
    """The gap between Uniform and the best of the grid first grows, then shrinks with N_hist/N."""
    return _over_fractions(tables, "Uniform", lambda a, b, c: (b - a, b - c))


def reaches_the_grid(tables: Sequence[Table]) -> list[Finding]:
    """Beyond the paper: a rule that needs no grid comes as close to its best as noise allows."""
    found = []
    for table in tables:
        lines = lines_with_best(table)
        best = lines.get(BEST)
        for name in RULES:
            if best and name in lines:
                found += _difference(table, lines[name], best, strictly=False)
    return found


CLAIMS = (
    fresh_is_never_best,
    no_baseline_is_always_good,
    ours_reaches_the_baselines,
    historical_gap_shrinks,
    uniform_gap_rises_and_falls,
    reaches_the_grid,
)


@dataclass(frozen=True)
class Closeness:
    """How far a line stays behind the grid's best, over all tables that have both.

    Attributes:
        line: Whose.
        gaps: The grid's best − line in each table; below zero where the line is better.
        worst: Where the gap is largest.
    """

    line: str
    gaps: Sequence[float]
    worst: str


def closeness(tables: Sequence[Table]) -> list[Closeness]:
    """Every line but the grid's own, the closest first by its mean gap."""
    found = []
    for line in (*RULES, *BASELINES):
        gaps = {place(t): g.mean for t in tables if (g := gap_to_best(t, line)) is not None}
        if gaps:
            found.append(
                Closeness(line, list(gaps.values()), max(gaps, key=lambda where: gaps[where]))
            )
    return sorted(found, key=lambda c: sum(c.gaps) / len(c.gaps))


def gap_to_best(table: Table, name: str) -> Interval | None:
    """The grid's best − line, if both are there."""
    lines = lines_with_best(table)
    best, line = lines.get(BEST), lines.get(name)
    return best.minus(line) if best and line else None


def _difference(table: Table, one: Line, other: Line, *, strictly: bool) -> list[Finding]:
    gap = one.minus(other)
    if gap is None:
        return []
    names = f"{one.name} {_percent(one)} − {other.name} {_percent(other)}"
    return [Finding(place(table), verdict(gap, strictly=strictly), f"{names}: {points(gap)}")]


def _over_fractions(tables: Sequence[Table], name: str, steps: Steps) -> list[Finding]:
    found = []
    for dataset, title in DATASETS.items():
        gaps = {
            t.setup.historical: g
            for t in tables
            if t.task == dataset and (g := gap_to_best(t, name)) is not None
        }
        if len(gaps) == 3:
            found.append(_sequence(title, name, [gaps[f] for f in sorted(gaps)], steps))
    return found


def _sequence(title: str, name: str, gaps: Sequence[Interval], steps: Steps) -> Finding:
    spreads = [gap.ci95 for gap in gaps if gap.ci95 is not None]
    noise = max(a + b for a, b in pairwise(spreads)) if len(spreads) == len(gaps) else None
    small, middle, large = (gap.mean for gap in gaps)
    least = Interval(min(steps(small, middle, large)), noise)
    evidence = f"{BEST} − {name} at 5, 20, 50 %: " + ", ".join(points(g) for g in gaps)
    return Finding(title, verdict(least, strictly=True), evidence)


def _percent(line: Line) -> str:
    return f"{100 * line.late_accuracy.mean:.1f}"
