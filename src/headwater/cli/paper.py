"""``headwater paper``: the paper's tables and figures, and what became of its claims."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.help_text import with_flowing_help
from headwater.cli.main import app
from headwater.cli.options import AsJson, BatchSize, Cores, DataDir, LocalSteps, Rounds
from headwater.cli.settings import as_typed, make_setup, make_tuning
from headwater.errors import InputError
from headwater.experiments.tasks import TASKS, fractions_in_words
from headwater.files import check_folder
from headwater.interrupts import stop_by_saving

paper = typer.Typer(
    no_args_is_help=True, help="The paper's tables and figures, and what became of its claims."
)
app.add_typer(paper, name="paper")

QUICK_ROUNDS = 20
OUT = Path("runs/paper")
Dataset = Annotated[str, typer.Argument(help=f"One of {', '.join(TASKS)}.")]
Results = Annotated[Path, typer.Option(help="Folder of the tables; what is made goes there too.")]


@paper.command()
@with_flowing_help
def table(
    dataset: Annotated[str, typer.Option(help=f"One of {', '.join(TASKS)}.")],
    historical: Annotated[
        float,
        typer.Option(
            help=f"Fraction that is historical, {fractions_in_words()}; "
            "the paper's: 0.05, 0.2, 0.5."
        ),
    ],
    seeds: Annotated[
        int | None,
        typer.Option(
            help="Repetitions, each with its own partition, model and batches; default: 3."
        ),
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option(
            help="Learning rates: one, several (0.01,0.1), or by default 'grid': the paper's, and "
            "beyond it until the best is inside."
        ),
    ] = None,
    rounds: Rounds = None,
    local_steps: LocalSteps = None,
    batch_size: BatchSize = None,
    tune_rounds: Annotated[
        int | None, typer.Option(help="Rounds of the tuning runs; default: as many.")
    ] = None,
    tune_seeds: Annotated[
        int | None, typer.Option(help="Seeds of the tuning runs; default: all.")
    ] = None,
    lines: Annotated[
        str | None,
        typer.Option(help="Only these lines, as uniform,ours,share-0.5; default: the usual."),
    ] = None,
    cores: Cores = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A small version: 20 rounds, one seed, rate 0.1 unless told."),
    ] = False,
    results: Annotated[
        Path | None, typer.Option(help="Folder of the tables to keep; default: the run folder.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Run folder; a run that was stopped goes on there.")
    ] = OUT,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """One table of the paper, with the paper's figures beside ours.

    Every finished run is stored at once; stop it whenever you like, the same command goes on where
    it was.

    Examples:

      headwater paper table --dataset synthetic --historical 0.2

      headwater paper table --dataset cifar10 --historical 0.2 --rates 0.1 --seeds 3

      headwater paper table --dataset shakespeare --historical 0.05 --rounds 800 --batch-size 4

      torchrun --nnodes 4 -m headwater paper table …    (on each of four machines)
    """
    from headwater.experiments.many_ranks import follow, leading
    from headwater.experiments.paper.study import Study
    from headwater.experiments.run_folder import alone
    from headwater.experiments.tasks.find import find_task
    from headwater.learning import torchrun
    from headwater.report.paper import print_table
    from headwater.report.progress import RunProgress

    with stop_by_saving():
        known(dataset)
        task = find_task(dataset, data_dir)
        seeds = seeds if seeds is not None else 1 if quick else 3
        if quick:
            rounds = QUICK_ROUNDS if rounds is None else rounds
            out = out.with_name(out.name + "-quick")
        setup = make_setup(task, historical, rounds, local_steps, batch_size)
        typed, sizes = rates or ("0.1" if quick else "grid"), (tune_rounds, tune_seeds)
        tuning = make_tuning(typed, "--rates", task.defaults.rates, sizes, setup, seeds)
        only = _lines(lines, dataset, historical)
        check_folder("--out", out)
        if results is not None:
            check_folder("--results", results)
        task.split(historical, setup.rounds, 0)  # what cannot be is found before a folder is made
        folder = out / f"{dataset}-{100 * historical:g}"
        study = Study(task, setup, seeds, tuning, results or out, folder, only, as_typed())
        if torchrun.rank() > 0:
            follow(study.experiment.assist)
            return
        with leading(), alone(folder):
            print_table(study.run(RunProgress, cores), as_json)


def _lines(text: str | None, dataset: str, historical: float) -> tuple[str, ...] | None:
    """Line names as typed, in any case."""
    from headwater.experiments.paper.lines import definitions

    if text is None:
        return None
    names = definitions(dataset, historical)
    known = {name.lower().replace(",", "").replace(" ", "-"): name for name in names}
    asked = [part.strip().lower() for part in text.split(",") if part.strip()]
    unknown = [part for part in asked if part not in known]
    if unknown or not asked:
        raise InputError(
            f"--lines: unknown line {(unknown or [text])[0]!r}; there are: {', '.join(known)}"
        )
    return tuple(known[part] for part in asked)


@paper.command()
@with_flowing_help
def figure(dataset: Dataset, results: Results = OUT) -> None:
    """Accuracy over rounds for the values of p_hist, a panel for each fraction."""
    from headwater.report.paper import draw_figure

    typer.echo(draw_figure(results, known(dataset)))


@paper.command()
@with_flowing_help
def card(dataset: Dataset, results: Results = OUT) -> None:
    """The card of a data set: settings, tables, figure, agreement with the paper."""
    from headwater.report.card import write_card

    typer.echo(write_card(results, known(dataset)))


@paper.command()
@with_flowing_help
def claims(results: Results = OUT) -> None:
    """All tables on one page: how close each rule comes, and the paper's claims, checked."""
    from headwater.report.overview import write_overview

    typer.echo(write_overview(results))


def known(dataset: str) -> str:
    """A data set's name, or an error that lists them."""
    from headwater.experiments.paper.published import DATASETS

    if dataset not in DATASETS:
        raise InputError(f"unknown data set {dataset!r}; there are: {', '.join(DATASETS)}")
    return dataset
