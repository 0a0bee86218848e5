"""The planner's tables, readable at 80 columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Table

from headwater.fleet import Comparison, Outcome

LONGEST = 12
"""Rows of a table of clients; longer ones are for a program to read."""


def strategy_table(comparison: Comparison) -> Table:
    """Strategies in their predicted order, with the terms of the bound."""
    title = (
        f"Predicted order, by the {'paper’s' if comparison.bound == 'paper' else 'sharper'} bound"
    )
    table = _table(
        title, ("", "Strategy"), ("Hist. share", "N_eff", "Noise", "Few samples", "Bound ψ/c1")
    )
    digits = _digits([p.total for p in comparison.prospects])
    for place, p in enumerate(comparison.prospects, 1):
        terms = (f"{value:.{digits}f}" for value in (p.noise, p.size, p.total))
        numbers = (_percent(p.historical), _samples(p.effective_samples), *terms)
        table.add_row(
            str(place), p.strategy, *numbers, style="bold green" if p is comparison.best else None
        )
    return table


def client_table(comparison: Comparison) -> Table:
    """Who counts how much under the recommended strategy."""
    outlook, best = comparison.outlook, comparison.best
    table = _table(
        "Who counts how much",
        ("Client",),
        ("Clients", "Samples each", "Fresh", "Share", "A sample counts"),
    )
    weight = best.importance * outlook.total / outlook.group_samples
    for k in range(len(outlook.names)):
        table.add_row(
            escape(outlook.names[k]),
            f"{outlook.count[k]:,.0f}",
            f"{outlook.samples[k]:,.0f}",
            "yes" if outlook.fresh[k] else "no",
            _percent(best.importance[k]),
            f"× {weight[k]:.3g}",
        )
    return table


def what_if_table(outcomes: Sequence[Outcome]) -> Table:
    """Scenarios against the fleet as it is."""
    table = _table(
        "What if (by the sharper bound)",
        ("Scenario",),
        ("Hist. share", "N_eff", "Bound ψ/c1", "Change"),
    )
    now, digits = outcomes[0].total, _digits([outcome.total for outcome in outcomes])
    for outcome in outcomes:
        change = (
            f"{100 * (outcome.total / now - 1):+.1f} %"
            if now > 0 and outcome is not outcomes[0]
            else ""
        )
        table.add_row(
            escape(outcome.scenario),
            _percent(outcome.historical),
            _samples(outcome.effective_samples),
            f"{outcome.total:.{digits}f}",
            change,
        )
        for name, (before, after) in outcome.clients.items():
            table.add_row(f"  {escape(name)}: {_percent(before)} → {_percent(after)}", style="dim")
    return table


def _table(title: str, words: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for name in words:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _digits(values: Sequence[float]) -> int:
    """Decimals with which the largest of these has four digits."""
    largest = max((v for v in values if 0 < v < math.inf), default=1.0)
    return max(1, 3 - math.floor(math.log10(largest)))


def _percent(share: float | np.floating) -> str:
    return f"{100 * float(share):.2f} %"


def _samples(number: float) -> str:
    return f"{number:,.0f}" if number < 1e9 else f"{number:.3g}"
