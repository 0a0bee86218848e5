"""The paper's tables and figures as people see them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from headwater.errors import InputError
from headwater.experiments.paper.published import CONSTANTS, DATASETS, FRACTIONS
from headwater.experiments.paper.rows import OPTIMAL
from headwater.experiments.paper.stored import Entry, Table, load_tables
from headwater.report.accuracy import Curves, draw_panels

ORDER = ("Fresh", "Historical", "Uniform", "Ours", OPTIMAL)
"""The paper's columns; ours follow."""


def print_table(results: Path, dataset: str, historical: float, as_json: bool) -> None:
    """Print a stored table beside the paper's."""
    table = Table.load(results, dataset, historical)
    if table is None:
        raise InputError(
            f"{results}: no results for {dataset} at {historical:g}; run headwater paper table "
            "first"
        )
    if as_json:
        sys.stdout.write(json.dumps(table_json(table), indent=2) + "\n")
        return
    console = Console()
    console.print(accuracies(table))
    for line in notes(table):
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def ordered(table: Table) -> list[Entry]:
    """The paper's lines first, then the rest as they are stored."""
    entries = table.entries
    names = [n for n in ORDER if n in entries] + [n for n in entries if n not in ORDER]
    return [entries[name] for name in names]


def paper_figure(table: Table, name: str) -> str:
    """What the paper prints for a line, or nothing."""
    if table.published is None or name not in ORDER:
        return ""
    mean, spread = getattr(table.published, name.lower())
    return f"{mean:.1f} ± {spread:.2f}"


def accuracies(table: Table) -> RichTable:
    """The table for a terminal."""
    out = RichTable(
        title=headline(table),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    out.add_column("Line", no_wrap=True)
    for name in ("Accuracy %", "Paper %", "p_hist", "Rate", "Seeds", "min/run"):
        out.add_column(name, justify="right", no_wrap=True)
    best = max((e.accuracy.mean for e in table.entries.values()), default=0.0)
    for e in ordered(table):
        style = "bold green" if e.accuracy.mean == best else None
        out.add_row(
            e.name,
            str(e.accuracy),
            paper_figure(table, e.name),
            f"{e.mean('historical_share'):.2f}",
            f"{e.learning_rate:.3g}",
            f"{len(e.results)}/{e.planned}",
            f"{e.mean('seconds') / 60:.1f}",
            style=style,
        )
    return out


def headline(table: Table) -> str:
    """Data set, fraction and settings in one line."""
    s = table.setup
    batch = "whole memory" if s.batch_size is None else f"K = {s.batch_size}"
    return (
        f"{DATASETS[table.dataset]}, {100 * s.historical:g} % historical: T = {s.rounds}, "
        f"E = {s.local_steps}, {batch}"
    )


def notes(table: Table) -> list[str]:
    """What the table's numbers rest on."""
    lines = [estimates(table), rates(table), f"Command: {table.index.command}"]
    if not table.index.data.complete:
        lines.append("The data are a part of the original set.")
    if table.missing:
        lines.append(
            f"{table.missing} runs are still to be done; the same command goes on with them."
        )
    return lines


def estimates(table: Table) -> str:
    """c2/c1, D, G, B and d of the first seeds, with the paper's in brackets."""
    if not table.ratios:
        return "No estimate yet."
    printed, published = CONSTANTS[table.dataset], table.published

    def mean(name: str) -> float:
        return float(np.mean([getattr(r, name) for r in table.ratios.values()]))

    ratio = f" (paper {published.ratio:g}, p_hist {published.share:g})" if published else ""
    measured = "not to be measured from so few samples"
    if all(r.measured is not None for r in table.ratios.values()):
        measured = f"measured {mean('measured'):.3g} ± {1.96 * mean('measured_error'):.2g}"
    constants = (
        f"D = {mean('diameter'):.2g} (paper {printed.diameter:g}), G = {mean('gradient_norm'):.2g} "
        f"({printed.gradient_norm:g}), B = {mean('loss_bound'):.2g} ({printed.loss_bound:g}), "
        f"d = {int(mean('parameters')):,} ({printed.parameters:,})"
    )
    return f"c2/c1 estimated {mean('estimated'):.3g}{ratio}, {measured}; {constants}"


def rates(table: Table) -> str:
    """How the learning rate was chosen."""
    tuning = table.index.tuning
    if len(tuning.rates) == 1:
        return f"Learning rate {tuning.rates[0]:g} for all lines, not tuned."
    shorter = "" if tuning.rounds == table.setup.rounds else f", in runs of {tuning.rounds} rounds"
    seeds = f"{tuning.seeds} seed{'s' * (tuning.seeds > 1)}{shorter}"
    return (
        "Learning rate of each line by validation accuracy from "
        f"{', '.join(f'{r:g}' for r in tuning.rates)}, "
        f"{seeds}; then learned again with the validation data."
    )


def table_json(table: Table) -> dict[str, Any]:
    """The table as plain numbers."""
    rows = [
        {
            "line": e.name,
            "about": e.about,
            "accuracy": e.accuracy.mean,
            "ci95": e.accuracy.ci95,
            "average_accuracy": e.average_accuracy.mean,
            "paper": paper_figure(table, e.name) or None,
            "historical_share": e.mean("historical_share"),
            "learning_rate": e.learning_rate,
            "seeds": sorted(e.results),
            "seconds": e.mean("seconds"),
            "cpu_seconds": e.mean("cpu_seconds"),
        }
        for e in ordered(table)
    ]
    return {
        "dataset": table.dataset,
        "historical": table.setup.historical,
        "rounds": table.setup.rounds,
        "local_steps": table.setup.local_steps,
        "batch_size": table.setup.batch_size,
        "ratios": {seed: vars(r) for seed, r in table.ratios.items()},
        "missing_runs": table.missing,
        "notes": notes(table),
        "rows": rows,
    }


def draw_figure(results: Path, dataset: str) -> Path:
    """Accuracy over rounds for the values of p_hist, a panel for each fraction; from what is
    stored."""
    tables = {t.setup.historical: t for t in load_tables(results, dataset)}
    if not tables:
        raise InputError(
            f"{results}: no results for {dataset}; run headwater paper table --dataset {dataset} "
            "first"
        )
    panels = {f"N_hist/N = {100 * f:g} %": _curves(tables.get(f)) for f in FRACTIONS}
    path = results / f"{dataset}.png"
    draw_panels(panels, DATASETS[dataset], path)
    return path


def _curves(table: Table | None) -> Curves:
    if table is None:
        return {}
    names: Mapping[str, str] = {
        "Fresh": "0 (Fresh)",
        "Share 0.2": "0.2",
        "Share 0.5": "0.5",
        "Share 0.8": "0.8",
        "Historical": "1 (Historical)",
        "Uniform": "Uniform",
        "Ours": "Ours",
    }
    drawn: dict[str, list[Any]] = {}
    for name, shown in names.items():
        runs = table.curves(name)
        if runs and table.index.cells[name] not in [
            table.index.cells[n] for n in names if names[n] in drawn
        ]:
            drawn[shown] = runs
    return drawn
