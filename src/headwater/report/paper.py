"""The paper's tables and figures as people see them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from headwater.errors import InputError
from headwater.experiments.over_seeds import Line
from headwater.experiments.paper.grid import PAPER_COLUMNS, lines_with_best, load_tables
from headwater.experiments.paper.published import (
    CONSTANTS,
    DATASETS,
    FRACTIONS,
    TABLES,
    Published,
)
from headwater.experiments.table import Table
from headwater.report.accuracy import Curves, draw_panels
from headwater.report.run import rate_note
from headwater.report.table import best_line, terminal_table


def print_table(table: Table, as_json: bool) -> None:
    """Print a table beside the paper's."""
    if as_json:
        sys.stdout.write(json.dumps(table_json(table), indent=2) + "\n")
        return
    lines = list(lines_with_best(table).values())
    columns = {
        "Line": lambda line: line.name,
        "Accuracy %": lambda line: str(line.accuracy),
        "Late tests %": lambda line: str(line.late_accuracy),
        "Paper %": lambda line: paper_figure(table, line.name),
        "p_hist": lambda line: f"{line.mean('historical_share'):.2f}",
        "Seeds": lambda line: f"{len(line.outcomes)}/{line.planned}",
        "min/run": lambda line: f"{line.mean('seconds') / 60:.1f}",
    }
    console = Console()
    console.print(terminal_table(headline(table), columns, lines, best_line(lines)))
    for note in notes(table):
        console.print(note, soft_wrap=True, highlight=False, markup=False)


def published(table: Table) -> Published | None:
    """The paper's line for the table, if it has one for this fraction."""
    return TABLES.get(table.setup.historical, {}).get(table.task)


def paper_figure(table: Table, name: str) -> str:
    """What the paper prints for a line, or nothing."""
    printed = published(table)
    if printed is None or name not in PAPER_COLUMNS:
        return ""
    mean, spread = getattr(printed, PAPER_COLUMNS[name])
    return f"{mean:.1f} ± {spread:.2f}"


def headline(table: Table) -> str:
    """Data set, fraction and settings in one line."""
    s = table.setup
    batch = "whole memory" if s.batch_size is None else f"K = {s.batch_size}"
    return (
        f"{DATASETS[table.task]}, {100 * s.historical:g} % of the {table.fraction_of} historical: "
        f"T = {s.rounds}, E = {s.local_steps}, {batch}"
    )


def notes(table: Table) -> list[str]:
    """What the table's numbers rest on."""
    found = [late_note(table), estimates(table), rate_note(table)]
    found.append(f"Command: {table.contents.command}")
    if not table.contents.data.complete:
        found.append("The data are a part of the original set.")
    if table.missing:
        found.append(f"{table.missing} runs are still to be done; the same command goes on.")
    return [note for note in found if note]


def late_note(table: Table) -> str:
    """How many tests the late accuracy is the mean of."""
    counts = sorted({len(outcome.late_tests) for outcome in table.finished.values()})
    if not counts or counts == [0]:
        return ""
    number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"Accuracy is the last iterate's; late tests are the last tenth of the tests ({number})."


def estimates(table: Table) -> str:
    """c2/c1, D, G, B and d over the seeds, with the paper's in brackets."""
    if not table.estimates:
        return ""
    found, printed, line = table.estimates.values(), CONSTANTS[table.task], published(table)

    def mean(name: str) -> float:
        return float(np.mean([estimate[name] for estimate in found]))

    ratio = f" (paper {line.ratio:g}, p_hist {line.share:g})" if line else ""
    measured = ""
    if all(estimate["measured"] is not None for estimate in found):
        measured = f", measured {mean('measured'):.3g} ± {1.96 * mean('measured_error'):.2g}"
    constants = (
        f"D = {mean('diameter'):.2g} (paper {printed.diameter:g}), G = {mean('gradient_norm'):.2g} "
        f"({printed.gradient_norm:g}), B = {mean('loss_bound'):.2g} ({printed.loss_bound:g}), "
        f"d = {int(mean('parameters')):,} ({printed.parameters:,})"
    )
    return f"c2/c1 estimated {mean('estimated'):.3g}{ratio}{measured}; {constants}."


def table_json(table: Table) -> dict[str, Any]:
    """The table as plain numbers."""
    return {
        "dataset": table.task,
        **asdict(table.setup),
        "fraction_of": table.fraction_of,
        "ratios": dict(table.estimates),
        "missing_runs": table.missing,
        "notes": notes(table),
        "rows": [_row(table, line) for line in lines_with_best(table).values()],
    }


def _row(table: Table, line: Line) -> dict[str, Any]:
    return {
        "line": line.name,
        "about": line.about,
        "accuracy": line.accuracy.mean,
        "ci95": line.accuracy.ci95,
        "late_accuracy": line.late_accuracy.mean,
        "late_ci95": line.late_accuracy.ci95,
        "average_accuracy": line.average_accuracy.mean,
        "paper": paper_figure(table, line.name) or None,
        "historical_share": line.mean("historical_share"),
        "learning_rate": line.learning_rate,
        "seeds": sorted(line.outcomes),
        "seconds": line.mean("seconds"),
        "cpu_seconds": line.mean("cpu_seconds"),
    }


def stored_tables(results: Path, dataset: str) -> list[Table]:
    """The tables of a data set; at least one."""
    tables = load_tables(results, dataset)
    if not tables:
        raise InputError(f"{results}: no results for {dataset} there; run its table first")
    return tables


def draw_figure(results: Path, dataset: str) -> Path:
    """Accuracy over rounds for the values of p_hist, a panel for each fraction."""
    tables = {t.setup.historical: t for t in stored_tables(results, dataset)}
    panels = {f"{100 * f:g} % historical": _curves(tables.get(f)) for f in FRACTIONS}
    path = results / f"{dataset}.png"
    draw_panels(panels, DATASETS[dataset], path)
    return path


_DRAWN: Mapping[str, str] = {
    "Fresh": "0 (Fresh)",
    "Share 0.2": "0.2",
    "Share 0.5": "0.5",
    "Share 0.8": "0.8",
    "Historical": "1 (Historical)",
    "Uniform": "Uniform",
    "Ours": "Ours",
    "Remembered": "Remembered",
}


def _curves(table: Table | None) -> Curves:
    """The lines to draw; one that has the same runs as another is drawn once."""
    if table is None:
        return {}
    drawn: dict[str, Sequence[Any]] = {}
    for name, shown in _DRAWN.items():
        line = table.lines.get(name)
        outcomes = list(line.outcomes.values()) if line else []
        if outcomes and outcomes[0].curve and outcomes not in drawn.values():
            drawn[shown] = outcomes
    return drawn
