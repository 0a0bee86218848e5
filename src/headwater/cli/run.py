"""``headwater run``: all strategies side by side on one task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.help_text import with_flowing_help
from headwater.cli.main import app
from headwater.cli.options import AsJson, BatchSize, Cores, DataDir, LocalSteps, Rounds
from headwater.cli.settings import as_typed, make_setup, make_tuning
from headwater.cli.strategies import ALL, measurable, parse_strategies
from headwater.experiments.tasks import TASKS, fractions_in_words
from headwater.files import check_folder
from headwater.interrupts import stop_by_saving
from headwater.ledger.registry import NAMES

_TASKS = ", ".join(TASKS)
_FRACTIONS = fractions_in_words()


@app.command()
@with_flowing_help
def run(
    task: Annotated[
        str,
        typer.Argument(help=f"{_TASKS}; module:Class of your own; or a table, .csv or .parquet."),
    ],
    historical: Annotated[
        float, typer.Option(help=f"Fraction that is there before round 1: {_FRACTIONS}.")
    ] = 0.2,
    strategies: Annotated[
        str,
        typer.Option(help=f"Any of: {NAMES}. Default: {ALL}.", show_default=False),
    ] = ALL,
    rounds: Rounds = None,
    local_steps: LocalSteps = None,
    batch_size: BatchSize = None,
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
    cores: Cores = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder; a run that was stopped goes on there.")
    ] = None,
    client: Annotated[str | None, typer.Option(help="A table's column of clients.")] = None,
    time: Annotated[str | None, typer.Option(help="A table's column of times.")] = None,
    label: Annotated[str | None, typer.Option(help="A table's column of labels.")] = None,
    features: Annotated[
        str | None, typer.Option(help="A table's columns of features (a,b,c); default: all others.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="A table's model, module:Class; default: one hidden layer."),
    ] = None,
    regression: Annotated[
        bool, typer.Option("--regression", help="A table's labels are numbers, not classes.")
    ] = False,
    capacity: Annotated[
        int | None, typer.Option(min=1, help="Newest rows that a table's client keeps [50].")
    ] = None,
    historical_before: Annotated[
        str | None,
        typer.Option(help="Clients all of whose rows came before are historical, not by lot."),
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Learn a task from streams with all strategies, and show them side by side.

    The learning rate, one for all strategies, is tuned on validation data; then each strategy
    learns from training and validation data, once per seed. You get a table, a picture of the
    accuracy over the rounds, and a run folder with every outcome (runs.jsonl) and the models. Stop
    it whenever you like: the same command goes on where it was.

    TASK is synthetic, air, activity, cifar10, cifar100, femnist or shakespeare; module:Class of
    your own; or a table of timestamped rows, .csv (commas, semicolons, tabs or vertical bars) or
    .parquet, with --client, --time and --label naming its columns.

    Examples:

      headwater run synthetic

      headwater run pumps.parquet --client device --time timestamp --label state

      headwater run synthetic --strategies uniform,share-0.5 --seeds 5 --json

      torchrun --nnodes 4 -m headwater run cifar10    (on each of four machines)
    """
    from headwater.experiments.comparison import Comparison, Entrant
    from headwater.experiments.experiment import Experiment
    from headwater.experiments.many_ranks import follow, leading
    from headwater.experiments.run_folder import alone
    from headwater.experiments.run_log import RunLog
    from headwater.experiments.tasks.find import find_task
    from headwater.experiments.tasks.own_table import OwnTable
    from headwater.learning import torchrun
    from headwater.report.progress import RunProgress
    from headwater.report.run import report

    with stop_by_saving():
        chosen = find_task(
            task,
            data_dir,
            client=client,
            time=time,
            label=label,
            features=None if features is None else tuple(features.split(",")),
            net=model,
            regression=regression or None,
            capacity=capacity,
            historical_before=historical_before,
        )
        setup = make_setup(chosen, historical, rounds, local_steps, batch_size)
        rates = chosen.defaults.rates
        tuning = make_tuning(learning_rate, "--learning-rate", rates, (None, None), setup, seeds)
        asked = parse_strategies(strategies, ratio)
        folder = out or Path("runs") / f"{chosen.name}-{100 * historical:g}"
        check_folder("--out", folder)
        # a setting that cannot be is found before the folder is made
        split = chosen.split(setup.historical, setup.rounds, 0)
        if isinstance(chosen, OwnTable) and torchrun.rank() == 0:
            typer.echo(chosen.in_words(setup.rounds), err=True)
        both = split.tuning, split.final
        named = measurable(asked, both, setup.rounds, told=strategies != ALL)
        experiment = Experiment(chosen, setup, folder, RunLog(folder / "runs.jsonl"))
        entrants = [{name: Entrant(name, strategy) for name, strategy in named.items()}] * seeds
        if torchrun.rank() > 0:
            follow(experiment.assist)
            return
        with leading(), alone(folder):
            experiment.open()
            table = Comparison(experiment, entrants, tuning, as_typed()).run(RunProgress, cores)
            report(table, folder, as_json)
