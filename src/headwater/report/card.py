"""The card of a data set: Markdown made from stored tables, so that it is right when made again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headwater.experiments.over_seeds import Line
from headwater.experiments.paper.grid import BEST, lines_with_best
from headwater.experiments.paper.published import DATASETS, FRACTIONS
from headwater.experiments.table import Table
from headwater.experiments.tasks import TASKS
from headwater.files import replace
from headwater.report.findings import findings
from headwater.report.paper import (
    draw_figure,
    estimates,
    late_note,
    paper_figure,
    stored_tables,
)
from headwater.report.run import rate_note
from headwater.report.table import Columns, markdown_table


def write_card(results: Path, dataset: str) -> Path:
    """The card, its figure, and ``remarks/<data set>.md`` in it if somebody wrote that."""
    tables = stored_tables(results, dataset)
    picture = draw_figure(results, dataset)
    parts = [
        f"# {DATASETS[dataset]}",
        f"Written by `headwater paper card {dataset}` from the tables' `runs.jsonl`.",
        _settings(tables),
        _remarks(results, dataset),
        f"![Accuracy over rounds]({picture.name})",
        *(_table(table) for table in tables),
        _not_run(tables),
        "## What agrees with the paper and what does not",
        findings(tables),
    ]
    path = results / f"{dataset}.md"
    replace(path, ("\n\n".join(part for part in parts if part) + "\n").encode())
    return path


def _settings(tables: Sequence[Table]) -> str:
    first, runs = tables[0], [o for t in tables for o in t.finished.values()]
    whole = "complete" if first.contents.data.complete else "**a part of the original set**"
    module = TASKS[first.task].place.split(":")[0]
    cpu, wall = sum(o.cpu_seconds for o in runs), sum(o.seconds for o in runs)
    rows = [
        ("Data", f"{whole}; partition, arrivals, validation and test: docstring of `{module}`"),
        ("Rounds T, local steps E, batch K", _sizes(tables)),
        ("Model reported", "the last iterate; no momentum, no decay, no augmentation"),
        ("Settings", "the same for all lines of a table"),
        ("Hardware", "; ".join(sorted({o.machine for o in runs})) or "nothing run yet"),
        ("Time", f"{len(runs)} runs, {wall / 3600:.2f} hours, {cpu / 3600:.2f} hours of one core"),
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows)])


def _remarks(results: Path, dataset: str) -> str:
    """What numbers do not tell: the edition of the data, why these settings; written by hand."""
    path = results / "remarks" / f"{dataset}.md"
    return f"## Remarks\n\n{path.read_text('utf-8').strip()}" if path.exists() else ""


def _sizes(tables: Sequence[Table]) -> str:
    """T, E and K: once if all tables have the same."""
    sizes: dict[str, list[str]] = {}
    for table in tables:
        batch = table.setup.batch_size
        whole = "the whole memory" if batch is None else f"{batch}"
        text = f"{table.setup.rounds}, {table.setup.local_steps}, {whole}"
        sizes.setdefault(text, []).append(f"{100 * table.setup.historical:g} %")
    if len(sizes) == 1:
        return next(iter(sizes))
    return "; ".join(f"{text} at {' and '.join(fractions)}" for text, fractions in sizes.items())


def _table(table: Table) -> str:
    data = table.contents.data
    title = f"## {100 * table.setup.historical:g} % of the {table.fraction_of} historical"
    who = (
        f"{data.clients:,} clients, {data.historical_clients:,} of them historical; "
        f"{data.samples:,} samples, {data.historical_samples:,} of them with historical clients; "
        f"{data.test_samples:,} test samples (seed 0)."
    )
    todo = f"{table.missing} runs of this table are still to be done." if table.missing else ""
    command = f"`{table.contents.command}`"
    notes = [who, late_note(table), estimates(table), rate_note(table), command, todo]
    lines = list(lines_with_best(table).values())
    body = markdown_table(_columns(table), lines)
    return "\n".join([title, "", body, "", *(note + "  " for note in notes if note)])


def _columns(table: Table) -> Columns[Line]:
    def named(line: Line) -> str:
        return f"{line.name}: {line.about}" + (", by test accuracy" if line.name == BEST else "")

    return {
        "line": named,
        "accuracy %": lambda line: str(line.accuracy),
        "late tests %": lambda line: str(line.late_accuracy),
        "paper %": lambda line: paper_figure(table, line.name),
        "average θ̄ %": lambda line: str(line.average_accuracy),
        "p_hist": lambda line: f"{line.mean('historical_share'):.2f}",
        "rate": lambda line: f"{line.learning_rate:.3g}",
        "seeds": lambda line: f"{len(line.outcomes)} of {line.planned}",
        "samples": lambda line: f"{line.mean('samples'):,.0f}",
        "core seconds": lambda line: f"{line.mean('cpu_seconds'):.0f}",
    }


def _not_run(tables: Sequence[Table]) -> str:
    there = {t.setup.historical for t in tables}
    missing = [f"{100 * f:g} %" for f in FRACTIONS if f not in there]
    return f"Not run yet: {', '.join(missing)} historical." if missing else ""
