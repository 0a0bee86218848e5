"""What ``headwater run`` shows: a table, a picture, a summary as JSON."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from headwater.experiments.measure import Measure
from headwater.experiments.over_seeds import Interval, Line
from headwater.experiments.table import Table
from headwater.files import replace
from headwater.report.accuracy import draw_accuracy
from headwater.report.table import Columns, best_line, terminal_table

_WIDEST = 1000  # columns of a terminal, more than any table has


def columns(measure: Measure, others: Sequence[str] = ()) -> Columns[Line]:
    """The table's columns; the first three are scores, by whatever the task is measured by.

    Args:
        measure: What that is.
        others: Further metrics by their names.
    """
    return {
        "Strategy": lambda line: line.name,
        f"{measure.words}{measure.unit}": lambda line: measure.show(line.accuracy),
        f"Late tests{measure.unit}": lambda line: measure.show(line.late_accuracy),
        f"Averaged{measure.unit}": lambda line: measure.show(line.average_accuracy),
        **{_words(name): _metric(name) for name in others},
        "p_hist": lambda line: f"{line.mean('historical_share'):.2f}",
        "N_eff": lambda line: f"{line.mean('effective_samples'):.0f}",
        "Noise": lambda line: f"{line.mean('variability'):.3g}",
    }


def other_metrics(lines: Sequence[Line]) -> list[str]:
    """The metrics beside the one that lines are compared by, in the order of the task's."""
    found = (name for line in lines for o in line.outcomes.values() for name in o.metrics)
    return [name for name in dict.fromkeys(found) if name != lines[0].measure]


def _metric(name: str) -> Callable[[Line], str]:
    measure = Measure.named(name)

    def show(line: Line) -> str:
        interval = line.metric(name)
        return "–" if interval is None else measure.show(interval)

    return show


def _words(name: str) -> str:
    measure = Measure.named(name)
    return f"{measure.words}{measure.unit}"


def report(table: Table, folder: Path, as_json: bool) -> None:
    """Write the folder's summary and picture; print the table or the JSON."""
    text = json.dumps(summary(table), indent=2)
    replace(folder / "results.json", text.encode())
    lines = list(table.lines.values())
    measure = Measure.named(lines[0].measure)
    picture = folder / f"{measure.name}.png"
    draw_accuracy(
        {n: list(e.outcomes.values()) for n, e in table.lines.items()}, title(table), picture
    )
    if as_json:
        sys.stdout.write(text + "\n")
        return
    console = Console()
    _print_table(table, lines, measure, console)
    page = f"A page to look at: headwater report {shlex.quote(str(folder))}"
    for note in (rate_note(table), f"Picture: {picture}   Folder: {folder}", page):
        console.print(note, soft_wrap=True, highlight=False)


def _print_table(table: Table, lines: list[Line], measure: Measure, console: Console) -> None:
    """The table with all metrics; on a terminal that is too narrow with the leading one only."""

    def shown(others: Sequence[str]) -> RichTable:
        return terminal_table(title(table), columns(measure, others), lines, best_line(lines))

    every = shown(other_metrics(lines))
    needed = Console(width=_WIDEST).measure(every).maximum
    if needed > console.width and console.is_terminal:
        every = shown([])
    # A file or a pipe has no edge.
    wide = console if console.is_terminal else Console(width=max(needed, console.width))
    wide.print(every)


def title(table: Table) -> str:
    """Task, fraction and rounds."""
    share = f"{100 * table.setup.historical:g} % of the {table.fraction_of} historical"
    return f"{table.task}: {share}, {table.setup.rounds} rounds"


def rate_note(table: Table) -> str:
    """Which learning rate all lines have, and how it was chosen."""
    rates = sorted({line.learning_rate for line in table.lines.values()})
    tuning, tried = table.contents.tuning, table.contents.tried
    if len(tuning.rates) == 1 and len(rates) <= 1:
        return f"Learning rate {tuning.rates[0]:g} for all lines, given."
    seeds = f"{tuning.seeds} seed{'s' * (tuning.seeds > 1)}"
    shorter = "" if tuning.rounds == table.setup.rounds else f", in runs of {tuning.rounds} rounds"
    among = ", ".join(f"{rate:g}" for rate in tried or tuning.rates)
    if len(rates) == 1:
        how = f"Learning rate {rates[0]:g} for all lines, the best mean over all of them"
    else:
        how = "Learning rate of each line by its own"
    return f"{how} on validation data among {among} ({seeds}{shorter})."


def summary(table: Table) -> dict[str, Any]:
    """The table as plain numbers."""
    return {
        "task": table.task,
        **asdict(table.setup),
        "fraction_of": table.fraction_of,
        "seeds": max(line.planned for line in table.lines.values()),
        "rows": [_row(line) for line in table.lines.values()],
    }


def _row(line: Line) -> dict[str, Any]:
    intervals = {
        line.measure: line.accuracy,
        f"late_{line.measure}": line.late_accuracy,
        f"average_{line.measure}": line.average_accuracy,
        "loss": line.over(lambda o: float("inf") if o.loss is None else o.loss),
    }
    numbers = ("historical_share", "effective_samples", "variability", "seconds")
    return {
        "strategy": line.name,
        "learning_rate": line.learning_rate,
        **{name: asdict(interval) for name, interval in intervals.items()},
        **{name: line.mean(name) for name in numbers},
        "metrics": {name: _interval(line.metric(name)) for name in _metrics(line)},
        "worst_tenth": {name: _interval(line.metric(name, worst=True)) for name in _worst(line)},
    }


def _interval(found: Interval | None) -> dict[str, float | None] | None:
    return None if found is None else asdict(found)


def _metrics(line: Line) -> list[str]:
    return list(dict.fromkeys(name for o in line.outcomes.values() for name in o.metrics))


def _worst(line: Line) -> list[str]:
    return list(dict.fromkeys(name for o in line.outcomes.values() for name in o.worst))
