"""The planner's tables, readable from 60 columns on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from rich import box
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from headwater.fleet import Comparison, Outcome
from headwater.fleet.fleet import Rows
from headwater.randomness import Floats
from headwater.report.visible import visible

LONGEST = 12
"""Rows of a table of clients; longer lists are for a program to read."""

NARROWEST_NAME = 16
"""Columns that a name keeps on a narrow terminal, if it needs them; other columns go first."""


def strategy_table(comparison: Comparison, width: int) -> Table:
    """Strategies in their predicted order, with the terms of the bound."""
    whose = "paper’s" if comparison.bound == "paper" else "sharper"
    digits = _digits([p.total for p in comparison.prospects])
    table = _Sheet(
        f"Predicted order, by the {whose} bound",
        "Strategy",
        ("Historical\nshare", "N_eff", "Noise", "Few\nsamples", "Bound\nψ/c1", "Error\nQ"),
        spare=("N_eff", "Error\nQ"),
    )
    least = min(p.remembered_error for p in comparison.prospects)
    for place, p in enumerate(comparison.prospects, 1):
        terms = [f"{value:.{digits}f}" for value in (p.noise, p.few_samples, p.total)]
        error = f"× {p.remembered_error / least:.2f}"
        numbers = [_percent(p.historical), _count(p.effective_samples), *terms, error]
        style = "bold green" if p is comparison.best else ""
        table.add(f"{place}  {p.strategy}", numbers, style)
    return table.fitting(width)


def client_table(comparison: Comparison, width: int) -> Table:
    """Who counts how much under the recommended strategy; by kind where there are too many rows.

    The two last lines add up to what the table of strategies says.
    """
    best = comparison.best
    table = _Sheet(
        f"Who counts how much under {best.strategy}",
        "Client",
        (
            "Clients",
            "Samples\neach",
            "Fresh",
            "Share\ntogether",
            "Share\nof each",
            "A sample\ncounts",
            "Remem-\nbered",
        ),
        spare=("Share\nof each", "Samples\neach", "Clients"),
    )
    for group in _groups(comparison):
        table.add(visible(group.name), _client_cells(comparison, group), group.style)
    return table.fitting(width)


def what_if_table(outcomes: Sequence[Outcome], width: int) -> Table:
    """Scenarios against the fleet as it is."""
    table = _Sheet(
        "What if (by the sharper bound)",
        "Scenario",
        ("Historical\nshare", "N_eff", "Bound\nψ/c1", "Change"),
        spare=("N_eff",),
    )
    now, digits = outcomes[0].total, _digits([outcome.total for outcome in outcomes])
    for outcome in outcomes:
        changed = now > 0 and outcome is not outcomes[0]
        table.add(
            visible(outcome.scenario),
            [
                _percent(outcome.historical),
                _count(outcome.effective_samples),
                f"{outcome.total:.{digits}f}",
                f"{100 * (outcome.total / now - 1):+.1f} %" if changed else "",
            ],
        )
        for name, (before, after) in outcome.named.items():
            moved = f"  {visible(name)}: {_percent(before)} → {_percent(after)}"
            table.add(moved, [""] * 4, style="dim")
    return table.fitting(width)


@dataclass(frozen=True)
class _Group:
    """Some rows of an outlook that make one line of the table of clients."""

    name: str
    rows: Rows
    style: str = ""


def _groups(comparison: Comparison) -> list[_Group]:
    """The lines of the table of clients: rows or kinds, and the two groups of the theory."""
    outlook = comparison.outlook
    if len(outlook.names) <= LONGEST:
        groups = [_Group(name, np.array([row])) for row, name in enumerate(outlook.names)]
    else:
        groups = _kinds(outlook.kinds)
    totals = {"all historical": ~outlook.fresh, "all fresh": outlook.fresh}
    return groups + [
        _Group(name, np.flatnonzero(rows), "bold") for name, rows in totals.items() if rows.any()
    ]


def _kinds(kinds: Sequence[str]) -> list[_Group]:
    """One group per kind; nothing if no row has one, or if there are too many."""
    code = {kind: k for k, kind in enumerate(dict.fromkeys(kinds))}
    if not any(code) or len(code) > LONGEST:
        return []
    member = np.fromiter((code[kind] for kind in kinds), np.int64, len(kinds))
    return [_Group(kind or "of no kind", np.flatnonzero(member == code[kind])) for kind in code]


def _client_cells(comparison: Comparison, group: _Group) -> list[str]:
    outlook, rows = comparison.outlook, group.rows
    share = _total(comparison.best.importance[rows])
    clients = _total(outlook.count[rows])
    samples = _total(outlook.row_samples[rows])
    fresh = outlook.fresh[rows]
    return [
        f"{clients:,.0f}",
        _count(samples / clients),
        "yes" if fresh.all() else "some" if fresh.any() else "no",
        _percent(share),
        f"{100 * share / clients:.3g} %",
        f"× {share * outlook.total / samples:.3g}",
        _percent(_total(comparison["remembered"].importance[rows])),
    ]


def _total(values: Floats) -> float:
    return float(values.sum())


@dataclass
class _Sheet:
    """A table whose first column are names and whose others are numbers.

    Attributes:
        title: above the table.
        first: heading of the names.
        headings: of the numbers.
        spare: headings of numbers that can go if names become unreadable, the first first.
    """

    title: str
    first: str
    headings: Sequence[str]
    spare: Sequence[str] = ()
    _rows: list[tuple[str, Sequence[str], str]] = field(default_factory=list)

    def add(self, name: str, numbers: Sequence[str], style: str = "") -> None:
        """Add a line."""
        self._rows.append((name, numbers, style))

    def fitting(self, width: int) -> Table:
        """The table for a terminal of so many columns."""
        shown = self._shown(width)
        table = Table(
            title=self.title,
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
        )
        table.add_column(self.first, overflow="fold", vertical="bottom")
        for column in shown:
            table.add_column(self.headings[column], justify="right", no_wrap=True)
        for name, numbers, style in self._rows:
            cells = (Text(numbers[column]) for column in shown)
            table.add_row(escape(name), *cells, style=style)
        return table

    def _shown(self, width: int) -> list[int]:
        """The columns that leave enough room for the names."""
        longest = max(cell_len(name) for name, _, _ in self._rows)
        shown = list(range(len(self.headings)))
        for heading in self.spare:
            room = width - 3 - sum(self._width(column) + 2 for column in shown)
            if room >= min(longest, NARROWEST_NAME):
                break
            shown.remove(list(self.headings).index(heading))
        return shown

    def _width(self, column: int) -> int:
        cells = [numbers[column] for _, numbers, _ in self._rows]
        return max(cell_len(line) for line in (*cells, *self.headings[column].split("\n")))


def _digits(values: Sequence[float]) -> int:
    """Decimals with which the largest of these has four digits."""
    largest = max((v for v in values if 0 < v < math.inf), default=1.0)
    return max(1, 3 - math.floor(math.log10(largest)))


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _count(number: float) -> str:
    return f"{number:,.0f}" if number < 1e9 else f"{number:.3g}"
