"""The page of a run folder: strategies side by side, as ``headwater run`` leaves them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headwater.errors import InputError
from headwater.experiments.measure import Measure
from headwater.experiments.over_seeds import Line
from headwater.experiments.table import Table
from headwater.report.pages.page import Page, Series, html_table
from headwater.report.run import columns, other_metrics, rate_note, title
from headwater.report.table import best_line

_VIEW = "view.json"


def table_page(folder: Path) -> Page:
    """Read what is finished in a run folder, and lay it out."""
    table = Table.load(folder / "runs.jsonl")
    if table is None or not table.lines:
        raise InputError(f"{folder}: no run is finished there yet; wait, or run the command again")
    lines = list(table.lines.values())
    measure = Measure.named(lines[0].measure)
    data = table.contents.data
    missing = f", {table.missing} runs still to be done" if table.missing else ""
    seeds = max(len(line.outcomes) for line in lines)
    return Page(
        title(table),
        f"{len(lines)} strategies, {seeds} seed{'s' * (seeds > 1)}{missing}. {rate_note(table)}",
        {
            "Clients": f"{data.clients:,}",
            "of which historical": f"{data.historical_clients:,}",
            "Samples": f"{data.samples:,}",
            "of which historical ": f"{data.historical_samples:,}",
            "Test samples": f"{data.test_samples:,}",
            "Rounds": f"{table.setup.rounds:,}",
        },
        _results(lines, measure),
        {measure.name: [_series(line, k) for k, line in enumerate(lines)]},
        "Over the rounds: mean and range of the seeds",
        _views(folder, table),
        f"{table.contents.command or folder}.",
        seeds > 1,
    )


def _results(lines: Sequence[Line], measure: Measure) -> str:
    """The table of the terminal, with the worst tenth of the clients."""
    shown = columns(measure, other_metrics(lines))
    head = [*shown, f"Worst tenth{measure.unit}"]
    rows = [[*(cell(line) for cell in shown.values()), _worst(line, measure)] for line in lines]
    best = best_line(lines)
    first = next((place for place, line in enumerate(lines) if best(line)), None)
    alone = "" if max(len(line.outcomes) for line in lines) > 1 else _ONE_SEED
    return f"<h2>Strategies side by side</h2>{alone}" + html_table(head, rows, first)


_ONE_SEED = '<p class="soft">One seed: differences of a few points may be chance.</p>'


def _worst(line: Line, measure: Measure) -> str:
    found = line.metric(measure.name, worst=True)
    return "–" if found is None else measure.show(found)


def _series(line: Line, colour: int) -> Series:
    """A strategy's curve: the rounds that all of its seeds were tested in."""
    runs = [{test.round: test.score for test in o.curve} for o in line.outcomes.values()]
    rounds = sorted(set.intersection(*(set(run) for run in runs)))
    values = np.array([[run[round] for round in rounds] for run in runs]).reshape(len(runs), -1)
    several = len(runs) > 1
    return Series(
        line.name,
        rounds,
        values.mean(0).tolist(),
        colour,
        colour >= 7,  # colours come again, dashed
        values.min(0).tolist() if several else (),
        values.max(0).tolist() if several else (),
    )


def _views(folder: Path, table: Table) -> dict[str, Any]:
    """The ledgers of the first seed, of those lines whose run left one."""
    found = {}
    for name, planned in table.contents.lines.items():
        run = planned.runs.get(0)
        files = sorted(folder.glob(f"work/*/seed-0/final-*-{run}/{_VIEW}")) if run else []
        if files and name in table.lines:
            found[name] = _view(files[0])
    return found


def _view(file: Path) -> dict[str, Any]:
    try:
        view: dict[str, Any] = json.loads(file.read_text())
        _ = view["ledger"]["lines"], view["clients"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file}: cannot be read ({error}); delete it to go without") from error
    return view
