"""All stored tables on one page: who comes how close to the grid's best, and the paper's claims."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from headwater.errors import InputError
from headwater.experiments.paper.claims import Closeness, closeness, gap_to_best, place, points
from headwater.experiments.paper.grid import (
    PAPER_COLUMNS,
    best_on_other_seeds,
    lines_with_best,
    load_tables,
)
from headwater.experiments.paper.published import DATASETS, FRACTIONS
from headwater.experiments.table import Table
from headwater.files import replace
from headwater.report.findings import findings
from headwater.report.paper import paper_figure
from headwater.report.share_picture import draw_shares
from headwater.report.table import Columns, markdown_table

_TITLE = "# The paper's experiments"
_RULES = ("Uniform", "Ours", "Remembered")


def write_overview(results: Path) -> Path:
    """The page and its picture, in the folder of the tables that it is about."""
    tables = [t for dataset in DATASETS for t in load_tables(results, dataset) if t.lines]
    path = results / "README.md"
    if not tables:
        raise InputError(f"{results}: no results there; run a table first")
    if path.exists() and not path.read_text("utf-8").startswith(_TITLE):
        raise InputError(f"{path} is not ours; move it, or choose another folder")
    draw_shares(tables, results / "shares.png")
    parts = [
        _TITLE,
        "## How far behind the grid's best is each rule that needs no grid?",
        _closest(tables),
        _NOT_ALIKE,
        _gaps(tables),
        "![Accuracy over p_hist in every table, and what each rule chose](shares.png)",
        *_fair(tables),
        "## All tables",
        _glance(tables),
        _coverage(tables),
        "## The paper's claims, checked",
        _HOW,
        findings(tables),
    ]
    replace(path, ("\n\n".join(parts) + "\n").encode())
    return path


_NOT_ALIKE = (
    "Means and worst cases are over the tables that a rule has been run on: two rules with other "
    "numbers of tables cannot be compared by them, only table by table."
)

_OTHER_SEEDS = (
    "The best of five noisy means is partly the luckiest one, by the same tests that it is then "
    "measured with. Somebody who runs a grid first and then uses its best share has another seed's "
    "noise: here each seed has the share that is best on the *other* seeds, in all tables "
    "with two seeds or more."
)

_HOW = (
    "Written by `headwater paper claims` from the tables' `runs.jsonl`; nothing here is written by "
    "hand. *Holds*: the difference is on the claimed side of zero by more than its 95 % interval. "
    "*Within noise*: the interval has zero in it. *Does not hold*: the difference is on the other "
    "side. *One seed*: nobody knows the noise, so there is no verdict. Differences are taken seed "
    "by seed; pp are percentage points of test accuracy, mean of the last tenth of the tests. The "
    "best of the grid is the best of p_hist = 0, 0.2, 0.5, 0.8, 1 **by test accuracy**, as in the "
    "paper (where it is called Optimal): hard to beat by a choice made before."
)


def _closest(tables: Sequence[Table]) -> str:
    columns: Columns[Closeness] = {
        "behind the grid's best": lambda c: c.line,
        "tables": lambda c: f"{len(c.gaps)}",
        "mean": lambda c: f"{100 * sum(c.gaps) / len(c.gaps):+.1f} pp",
        "worst": lambda c: f"{100 * max(c.gaps):+.1f} pp at {c.worst}",
    }
    return markdown_table(columns, closeness(tables))


def _gaps(tables: Sequence[Table]) -> str:
    """The same table by table, with the share that each rule chose."""

    def gap(name: str, table: Table) -> str:
        found, line = gap_to_best(table, name), table.lines.get(name)
        if found is None or line is None:
            return "–"
        return f"{points(found)} at p_hist {line.mean('historical_share'):.2f}"

    rules = [name for name in _RULES if any(name in table.lines for table in tables)]
    columns: Columns[Table] = {"behind the grid's best": place}
    columns = {**columns, **{name: partial(gap, name) for name in rules}}
    return markdown_table(columns, tables)


def _fair(tables: Sequence[Table]) -> list[str]:
    """The same against a grid that has not seen the seed it is measured on, if tables allow it."""
    several = [table for table in tables if best_on_other_seeds(table.lines)]
    if not several:
        return []

    def gap(name: str, table: Table) -> str:
        grid, line = best_on_other_seeds(table.lines), table.lines.get(name)
        found = grid.minus(line) if grid and line else None
        return points(found) if found else "–"

    rules = [name for name in _RULES if any(name in table.lines for table in several)]
    columns: Columns[Table] = {"behind the grid chosen on other seeds": place}
    columns = {**columns, **{name: partial(gap, name) for name in rules}}
    return [_OTHER_SEEDS, markdown_table(columns, several)]


def _glance(tables: Sequence[Table]) -> str:
    """The paper's lines of all tables, its own figures in brackets."""

    def both(name: str, table: Table) -> str:
        line, paper = lines_with_best(table).get(name), paper_figure(table, name)
        return f"{line.late_accuracy if line else '–'} ({paper.split()[0] if paper else '–'})"

    def share(table: Table) -> str:
        ours = table.lines.get("Ours")
        return f"{ours.mean('historical_share'):.2f}" if ours else "–"

    columns: Columns[Table] = {
        "accuracy % (the paper's)": place,
        **{name: partial(both, name) for name in PAPER_COLUMNS},
        "p_hist of Ours": share,
    }
    return markdown_table(columns, tables)


def _coverage(tables: Sequence[Table]) -> str:
    """What the page rests on."""

    def state(fraction: float, dataset: str) -> str:
        own = [t for t in tables if (t.task, t.setup.historical) == (dataset, fraction)]
        if not own:
            return "not run"
        return f"{len(own[0].finished)} of {len(own[0].wanted)}"

    def name(dataset: str) -> str:
        there = any(table.task == dataset for table in tables)
        return f"[{DATASETS[dataset]}]({dataset}.md)" if there else DATASETS[dataset]

    columns: Columns[str] = {
        "runs finished": name,
        **{f"{100 * f:g} %": partial(state, f) for f in FRACTIONS},
    }
    return markdown_table(columns, list(DATASETS))
