"""Result cards: Markdown made from stored tables, so that they are right whenever they are made
again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headwater.errors import InputError
from headwater.experiments.paper.claims import CLAIMS, Finding, closeness, place
from headwater.experiments.paper.published import DATASETS, FRACTIONS
from headwater.experiments.paper.stored import Table, load_tables
from headwater.files import replace
from headwater.report.paper import ORDER, draw_figure, estimates, ordered, paper_figure, rates

_ABOUT = {
    "synthetic": "headwater.experiments.tasks.synthetic",
    "cifar10": "headwater.experiments.tasks.cifar",
    "cifar100": "headwater.experiments.tasks.cifar",
    "femnist": "headwater.experiments.tasks.femnist",
    "shakespeare": "headwater.experiments.tasks.shakespeare",
}


def write_card(results: Path, dataset: str) -> Path:
    """The card of a data set, with its figure, and with ``remarks/<data set>.md`` if somebody wrote
    it."""
    tables = load_tables(results, dataset)
    if not tables:
        raise InputError(
            f"{results}: no results for {dataset}; run headwater paper table --dataset {dataset} "
            "first"
        )
    picture = draw_figure(results, dataset)
    parts = [
        f"# {DATASETS[dataset]}",
        f"Written by `headwater paper card {dataset}` from the runs in [`cells/`](cells).",
        _settings(tables),
        _remarks(results, dataset),
        f"![Accuracy over rounds]({picture.name})",
        *(_table(t) for t in tables),
        _not_run(tables),
        "## What agrees with the paper and what does not",
        findings(tables),
    ]
    path = results / f"{dataset}.md"
    replace(path, ("\n\n".join(part for part in parts if part) + "\n").encode())
    return path


def write_claims(results: Path) -> Path:
    """The paper's claims with all that is stored for and against them."""
    tables = [t for dataset in DATASETS for t in load_tables(results, dataset)]
    parts = [
        "# The paper's claims, checked",
        _INTRODUCTION,
        _coverage(tables),
        _glance(tables),
        _closest(tables),
        findings(tables),
    ]
    path = results / "README.md"
    replace(path, ("\n\n".join(part for part in parts if part) + "\n").encode())
    return path


_INTRODUCTION = (
    "Written by `headwater paper claims` from the runs in [`cells/`](cells); nothing here is "
    "written by hand. "
    "*Holds*: the difference is on the claimed side of zero by more than its 95 % interval (of one "
    "seed: by its "
    "sign). *Within noise*: the interval has zero in it. *Does not hold*: the difference is on the "
    "other side. "
    "Differences are taken seed by seed; pp are percentage points of test accuracy. Optimal is the "
    "best of "
    "p_hist = 0, 0.2, 0.5, 0.8, 1 **by test accuracy**, as in the paper: hard to beat by a choice "
    "made before."
)


def findings(tables: Sequence[Table]) -> str:
    """Every claim with its evidence."""
    return "\n\n".join(
        _claim(str(claim.__doc__).splitlines()[0], claim(tables)) for claim in CLAIMS
    )


def _claim(title: str, found: Sequence[Finding]) -> str:
    if not found:
        return f"### {title}\n\nNot run yet."
    counts = {
        v: sum(f.verdict == v for f in found) for v in dict.fromkeys(f.verdict for f in found)
    }
    total = ", ".join(f"{verdict}: {count}" for verdict, count in counts.items())
    rows = [f"| {f.where} | {f.verdict} | {f.evidence} |" for f in found]
    return "\n".join(
        [
            f"### {title}",
            "",
            f"{total}.",
            "",
            "| where | verdict | numbers |",
            "|---|---|---|",
            *rows,
        ]
    )


def _settings(tables: Sequence[Table]) -> str:
    first, results = tables[0], [r for t in tables for r in t.finished().values()]
    whole = "complete" if first.index.data.complete else "**a part of the original set**"
    cpu, wall = (sum(getattr(r, name) for r in results) for name in ("cpu_seconds", "seconds"))
    rows = [
        (
            "Data",
            f"{whole}; partition, arrivals, validation and test: docstring of "
            f"`{_ABOUT[first.dataset]}`",
        ),
        ("Rounds T, local steps E, batch K", _sizes(tables)),
        ("Model reported", "the last iterate; no momentum, no decay, no augmentation"),
        ("Settings", "the same for all lines of a table"),
        ("Hardware", "; ".join(sorted({r.machine for r in results})) or "nothing run yet"),
        (
            "Time",
            f"{len(results)} runs, {wall / 3600:.2f} h by the clock, {cpu / 3600:.2f} h of one "
            "core",
        ),
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows)])


def _remarks(results: Path, dataset: str) -> str:
    """What numbers do not tell: the edition of the data, why these settings; the one part written
    by hand."""
    path = results / "remarks" / f"{dataset}.md"
    return f"## Remarks\n\n{path.read_text('utf-8').strip()}" if path.exists() else ""


def _sizes(tables: Sequence[Table]) -> str:
    """T, E and K: once if all tables have the same."""
    sizes: dict[str, list[str]] = {}
    for table in tables:
        batch = (
            "the whole memory" if table.setup.batch_size is None else f"{table.setup.batch_size}"
        )
        text = f"{table.setup.rounds}, {table.setup.local_steps}, {batch}"
        sizes.setdefault(text, []).append(f"{100 * table.setup.historical:g} %")
    if len(sizes) == 1:
        return next(iter(sizes))
    return "; ".join(f"{text} at {' and '.join(fractions)}" for text, fractions in sizes.items())


def _table(table: Table) -> str:
    data = table.index.data
    title = f"## {100 * table.setup.historical:g} % historical"
    who = (
        f"{data.clients:,} clients, {data.historical_clients:,} of them historical; "
        f"{data.samples:,} samples, "
        f"{data.historical_samples:,} historical; {data.test_samples:,} test samples (seed 0)."
    )
    names = "line | accuracy % | paper % | average θ̄ % | p_hist | rate | seeds | samples"
    head = f"| {names} | core seconds |"
    rows = [
        f"| {e.name}: {e.about} | {e.accuracy} | {paper_figure(table, e.name)} | "
        f"{e.average_accuracy} | "
        f"{e.mean('historical_share'):.2f} | {e.learning_rate:.3g} | {len(e.results)} of "
        f"{e.planned} | "
        f"{e.mean('samples'):,.0f} | {e.mean('cpu_seconds'):.0f} |"
        for e in ordered(table)
    ]
    todo = f"{table.missing} runs of this table are still to be done." if table.missing else ""
    notes = [who, estimates(table) + ".", rates(table), f"`{table.index.command}`", todo]
    return "\n".join(
        [title, "", head, "|---|" + "--:|" * 8, *rows, "", *(n + "  " for n in notes if n)]
    )


def _not_run(tables: Sequence[Table]) -> str:
    there = {t.setup.historical for t in tables}
    missing = [f"{100 * f:g} %" for f in FRACTIONS if f not in there]
    return f"Not run yet: {', '.join(missing)} historical." if missing else ""


def _coverage(tables: Sequence[Table]) -> str:
    """What the list rests on."""
    rows = []
    for dataset, title in DATASETS.items():
        own = {t.setup.historical: t for t in tables if t.dataset == dataset}
        states = [_state(own.get(f)) for f in FRACTIONS]
        name = f"[{title}]({dataset}.md)" if own else title
        rows.append(f"| {name} | {' | '.join(states)} |")
    return "\n".join(["| runs finished | 5 % | 20 % | 50 % |", "|---|---|---|---|", *rows])


def _glance(tables: Sequence[Table]) -> str:
    """The paper's lines of all tables, its own figures in brackets."""
    head = f"| accuracy % (the paper's) | {' | '.join(ORDER)} | p_hist of Ours |"
    rows = [
        f"| {place(t)} | {' | '.join(_both(t, name) for name in ORDER)} | {_share(t)} |"
        for t in tables
        if t.entries
    ]
    return "\n".join([head, "|---|" + "--:|" * (len(ORDER) + 1), *rows]) if rows else ""


def _closest(tables: Sequence[Table]) -> str:
    """Who comes how close to the grid's best without a grid."""
    head = "| behind the grid's best, without a grid | tables | mean | worst |\n|---|--:|--:|---|"
    rows = [
        f"| {c.line} | {len(c.gaps)} | {100 * sum(c.gaps) / len(c.gaps):+.1f} pp | "
        f"{100 * max(c.gaps):+.1f} pp at {c.worst} |"
        for c in closeness(tables)
    ]
    return "\n".join([head, *rows]) if rows else ""


def _both(table: Table, name: str) -> str:
    entry, paper = table.entries.get(name), paper_figure(table, name)
    return f"{entry.accuracy if entry else '–'} ({paper.split()[0] if paper else '–'})"


def _share(table: Table) -> str:
    ours = table.entries.get("Ours")
    return f"{ours.mean('historical_share'):.2f}" if ours else "–"


def _state(table: Table | None) -> str:
    if table is None:
        return "not run"
    done = len(table.finished())
    return f"{done} of {done + table.missing}"
