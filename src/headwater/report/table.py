"""Tables, for a terminal and for Markdown: columns are functions of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from rich import box
from rich.table import Table as RichTable

from headwater.experiments.measure import Measure
from headwater.experiments.over_seeds import Line

T = TypeVar("T")
Columns = Mapping[str, Callable[[T], str]]
"""Heading -> what stands there; the first column names the row, the others are numbers."""


def terminal_table(
    title: str, columns: Columns[T], rows: Sequence[T], strong: Callable[[T], bool] | None = None
) -> RichTable:
    """A table for a terminal; rows that are ``strong`` are set off."""
    table = RichTable(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for number, heading in enumerate(columns):
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        style = "bold green" if strong and strong(row) else None
        table.add_row(*(cell(row) for cell in columns.values()), style=style)
    return table


def markdown_table(columns: Columns[T], rows: Sequence[T]) -> str:
    """A table for a document.

    >>> print(markdown_table({"n": str, "square": lambda n: f"{n * n}"}, [2, 3]))
    | n | square |
    |---|--:|
    | 2 | 4 |
    | 3 | 9 |
    """
    head = f"| {' | '.join(columns)} |"
    rule = "|---|" + "--:|" * (len(columns) - 1)
    body = [f"| {' | '.join(cell(row) for cell in columns.values())} |" for row in rows]
    return "\n".join([head, rule, *body])


def best_line(lines: Sequence[Line]) -> Callable[[Line], bool]:
    """Whether a line has the best mean score of all."""
    higher = not lines or Measure.named(lines[0].measure).higher
    best = (max if higher else min)((line.accuracy.mean for line in lines), default=0.0)
    return lambda line: line.accuracy.mean == best
