"""The paper's claims, checked against stored tables; verdicts are computed, never written by
hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headwater.experiments.paper.published import DATASETS
from headwater.experiments.paper.rows import OPTIMAL
from headwater.experiments.paper.stored import Entry, Table
from headwater.experiments.summary import Interval

HOLDS, NOISE, FAILS = "holds", "within noise", "does not hold"
BASELINES = ("Fresh", "Historical", "Uniform")
OURS = ("Ours", "Sharp", "Measured", "Sharp, measured", "Printed ratio")

Steps = Callable[[float, float, float], tuple[float, float]]
"""The gaps at 5, 20 and 50 % -> two differences that are above zero if the claim holds."""


@dataclass(frozen=True)
class Finding:
    """One claim at one place.

    Attributes:
        where: data set, and fraction if it is about one table.
        verdict: holds, within noise, or does not hold.
        evidence: the numbers.
    """

    where: str
    verdict: str
    evidence: str


def place(table: Table) -> str:
    """Data set and fraction."""
    return f"{DATASETS[table.dataset]}, {100 * table.setup.historical:g} %"


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
    """
    noise = gap.ci95 or 0.0
    if gap.mean > noise or (not strictly and gap.mean >= 0):
        return HOLDS
    return NOISE if abs(gap.mean) <= noise else FAILS


def fresh_is_never_best(tables: Sequence[Table]) -> list[Finding]:
    """Working only with new data is never best."""
    found = []
    for table in tables:
        others = [e for name, e in table.entries.items() if name not in ("Fresh", OPTIMAL)]
        fresh = table.entries.get("Fresh")
        if fresh and others:
            best = max(others, key=lambda e: e.accuracy.mean)
            found += _difference(table, best, fresh, strictly=True)
    return found


def ours_reaches_the_baselines(tables: Sequence[Table]) -> list[Finding]:
    """Ours is at least as good as the best of Fresh, Historical and Uniform."""
    found = []
    for table in tables:
        baselines = [table.entries[name] for name in BASELINES if name in table.entries]
        ours = table.entries.get("Ours")
        if ours and len(baselines) == len(BASELINES):
            best = max(baselines, key=lambda e: e.accuracy.mean)
            found += _difference(table, ours, best, strictly=False)
    return found


def no_baseline_is_always_good(tables: Sequence[Table]) -> list[Finding]:
    """Neither Uniform nor Historical is always good: each falls clearly short of Optimal
    somewhere."""
    found = []
    for name in ("Uniform", "Historical"):
        gaps = [(g, t) for t in tables if (g := gap_to_optimal(t, name)) is not None]
        if gaps:
            worst, table = max(gaps, key=lambda pair: pair[0].mean)
            where = f"{name} over {len(gaps)} table{'s' * (len(gaps) > 1)}"
            evidence = f"largest gap Optimal − {name}: {points(worst)} at {place(table)}"
            found.append(Finding(where, verdict(worst, strictly=True), evidence))
    return found


def historical_gap_shrinks(tables: Sequence[Table]) -> list[Finding]:
    """The gap between Historical and Optimal shrinks as N_hist/N grows."""
    return _over_fractions(tables, "Historical", lambda a, b, c: (a - b, b - c))


def uniform_gap_rises_and_falls(tables: Sequence[Table]) -> list[Finding]:
    """The gap between Uniform and Optimal first grows, then shrinks, as N_hist/N grows."""
    return _over_fractions(tables, "Uniform", lambda a, b, c: (b - a, b - c))


def reaches_the_grid(tables: Sequence[Table]) -> list[Finding]:
    """Beyond the paper: each way to choose p without a grid comes as close to the grid's best as
    noise allows."""
    found = []
    for table in tables:
        best = table.entries.get(OPTIMAL)
        for name in OURS:
            if best and name in table.entries:
                found += _difference(table, table.entries[name], best, strictly=False)
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
        line: whose.
        gaps: Optimal − line in each table; below zero where the line is better.
        worst: where the gap is largest.
    """

    line: str
    gaps: Sequence[float]
    worst: str


def closeness(tables: Sequence[Table]) -> list[Closeness]:
    """Every line but the grid's own, the closest first by its mean gap."""
    found = []
    for line in (*OURS, *BASELINES):
        gaps = {place(t): g.mean for t in tables if (g := gap_to_optimal(t, line)) is not None}
        if gaps:
            found.append(
                Closeness(line, list(gaps.values()), max(gaps, key=lambda where: gaps[where]))
            )
    return sorted(found, key=lambda c: sum(c.gaps) / len(c.gaps))


def gap_to_optimal(table: Table, name: str) -> Interval | None:
    """Optimal − line, if both are there."""
    best, line = table.entries.get(OPTIMAL), table.entries.get(name)
    return best.minus(line) if best and line else None


def _difference(table: Table, one: Entry, other: Entry, *, strictly: bool) -> list[Finding]:
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
            if t.dataset == dataset and (g := gap_to_optimal(t, name)) is not None
        }
        if len(gaps) == 3:
            found.append(_sequence(title, name, [gaps[f] for f in sorted(gaps)], steps))
    return found


def _sequence(title: str, name: str, gaps: Sequence[Interval], steps: Steps) -> Finding:
    noise = max((a.ci95 or 0.0) + (b.ci95 or 0.0) for a, b in pairwise(gaps))
    small, middle, large = (g.mean for g in gaps)
    least = Interval(min(steps(small, middle, large)), noise)
    evidence = f"Optimal − {name} at 5, 20, 50 %: " + ", ".join(points(g) for g in gaps)
    return Finding(title, verdict(least, strictly=True), evidence)


def _percent(entry: Entry) -> str:
    return f"{100 * entry.accuracy.mean:.1f}"
