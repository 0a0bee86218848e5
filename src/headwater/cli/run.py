"""``headwater run``: all strategies side by side on one task."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from headwater.cli.main import app
from headwater.cli.strategies import ALL, NAMES, parse_strategies
from headwater.errors import InputError
from headwater.experiments.tasks import TASKS, fractions_in_words

_TASKS = ", ".join(TASKS)
_FRACTIONS = fractions_in_words()


@app.command()
def run(
    task: Annotated[
        str, typer.Argument(help=f"What to learn: {_TASKS}; or module:Class of your own.")
    ],
    historical: Annotated[
        float, typer.Option(help=f"Fraction that is there before round 1: {_FRACTIONS}.")
    ] = 0.2,
    strategies: Annotated[str, typer.Option(help=f"Any of: {NAMES}.")] = ALL,
    rounds: Annotated[int | None, typer.Option(help="Communication rounds.")] = None,
    local_steps: Annotated[
        int | None, typer.Option(help="Gradient steps of a client in a round.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Samples a gradient step; 0: the whole memory.")
    ] = None,
    learning_rate: Annotated[
        str,
        typer.Option(
            help="A number, several to choose from (0.01,0.1), or 'grid': tuned on validation data."
        ),
    ] = "grid",
    seeds: Annotated[
        int, typer.Option(help="Repetitions, each with its own data, model and batches.")
    ] = 3,
    ratio: Annotated[
        float | None,
        typer.Option(help="c2/c1 for 'optimal' and 'sharp'; estimated from the data if not given."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder; a run that was stopped goes on there.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where data sets are; default: the user's cache.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print only JSON on standard output.")
    ] = False,
) -> None:
    """Learn a task from streams with all strategies, and show them side by side.

    Each strategy's learning rate is tuned on validation data, then it learns from training and
    validation data, once a seed. You get a table, a picture of the accuracy over the rounds, and a
    run folder with settings, a record a round, and the models. Stop it whenever you like: the same
    command goes on where it was.

    Examples:

      headwater run synthetic

      headwater run synthetic --historical 0.05 --strategies uniform,optimal,share=0.5 --seeds 5
      --json
    """
    from headwater.experiments.cells import Setup
    from headwater.experiments.experiment import Experiment
    from headwater.experiments.parallel import alone
    from headwater.experiments.tasks.find import find_task as find

    chosen = find(task, data_dir)
    setup = Setup(
        historical=historical,
        rounds=chosen.defaults.rounds if rounds is None else rounds,
        local_steps=chosen.defaults.local_steps if local_steps is None else local_steps,
        batch_size=chosen.defaults.batch_size if batch_size is None else batch_size or None,
    )
    check_setup(setup, seeds)
    named = parse_strategies(strategies, ratio)
    rates = parse_rates(learning_rate, chosen.defaults.rates, "--learning-rate")
    chosen.split(
        setup.historical, setup.rounds, 0
    )  # a setting that cannot be is found before the folder is made
    folder = out or Path("runs") / f"{chosen.name}-{100 * historical:g}"
    experiment = Experiment(chosen, setup, folder)
    with alone(folder):
        experiment.open()
        report(experiment, _strategy_rows(experiment, named, rates, seeds), as_json)


def _strategy_rows(
    experiment: Any, named: dict[str, Any], rates: Sequence[float], seeds: int
) -> dict[str, Any]:
    """Tune, then run; a summary row and the finished cells of each strategy."""
    from headwater.experiments.cells import Cell
    from headwater.experiments.parallel import run_cells
    from headwater.experiments.summary import Row, best_rate
    from headwater.report.progress import CellProgress

    everything = range(seeds)
    chosen = dict.fromkeys(named, rates[0])
    if len(rates) > 1:
        tuning = [
            Cell(n, s, seed, rate, True)
            for n, s in named.items()
            for seed in everything
            for rate in rates
        ]
        with CellProgress("tuning", experiment.setup.rounds, len(tuning)) as watch:
            results = list(zip(tuning, run_cells(experiment, tuning, watch), strict=True))
        chosen = {name: best_rate([r for r in results if r[0].label == name]) for name in named}
    cells = {
        n: [Cell(n, s, seed, chosen[n], False) for seed in everything] for n, s in named.items()
    }
    flat = [cell for group in cells.values() for cell in group]
    with CellProgress("learning", experiment.setup.rounds, len(flat)) as watch:
        done = dict(zip(flat, run_cells(experiment, flat, watch), strict=True))
    return {
        n: (Row.of(n, chosen[n], [done[cell] for cell in group]), group)
        for n, group in cells.items()
    }


def report(experiment: Any, rows: dict[str, Any], as_json: bool) -> None:
    """Write the folder's summary and picture; print the table or the JSON."""
    from headwater.files import replace
    from headwater.report.accuracy import draw_accuracy
    from headwater.report.table import strategies_table

    setup, task = experiment.setup, experiment.task
    summary = {
        "task": task.name,
        **asdict(setup),
        "seeds": len(next(iter(rows.values()))[1]),
        "rows": [row.as_json() for row, _ in rows.values()],
    }
    text = json.dumps(summary, indent=2)
    replace(experiment.folder / "results.json", text.encode())
    fraction = f"{100 * setup.historical:g} % of the {task.fraction_of} historical"
    title = f"{task.name}: {fraction}, {setup.rounds} rounds"
    picture = experiment.folder / "accuracy.png"
    draw_accuracy(
        {n: [experiment.records(c) for c in cells] for n, (_, cells) in rows.items()},
        title,
        picture,
    )
    if as_json:
        sys.stdout.write(text + "\n")
        return
    console = Console()
    console.print(strategies_table([row for row, _ in rows.values()], title))
    console.print(
        f"Picture: {picture}   Folder: {experiment.folder}", soft_wrap=True, highlight=False
    )


def parse_rates(text: str, grid: Sequence[float], option: str) -> list[float]:
    """Learning rates as typed: numbers, or 'grid'."""
    if text.strip().lower() == "grid":
        return list(grid)
    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"{option}: a number, several with commas, or 'grid'; got {text!r}"
        ) from None
    if not all(0 < rate < float("inf") for rate in rates):
        raise InputError(f"{option}: numbers above 0; got {text!r}")
    return rates


def check_setup(setup: Any, seeds: int) -> None:
    """Refuse settings that cannot be, by the names of their options."""
    from headwater.ledger.orders import LocalWork

    if not 0 < setup.historical < 1:
        raise InputError(f"--historical: a fraction between 0 and 1; got {setup.historical:g}")
    if setup.rounds < 1:
        raise InputError(f"--rounds: at least 1; got {setup.rounds}")
    if seeds < 1:
        raise InputError(f"--seeds: at least 1; got {seeds}")
    LocalWork(setup.local_steps, setup.batch_size)
