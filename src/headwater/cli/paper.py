"""``headwater paper``: the paper's tables and figures, and what became of its claims."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from headwater.cli.main import app
from headwater.errors import InputError

paper = typer.Typer(
    no_args_is_help=True, help="The paper's tables and figures, and what became of its claims."
)
app.add_typer(paper, name="paper")

QUICK_ROUNDS = 20
Dataset = Annotated[
    str, typer.Argument(help="synthetic, cifar10, cifar100, femnist or shakespeare.")
]
Results = Annotated[Path, typer.Option(help="Folder of the results that are kept.")]
RESULTS = Path("docs/results")


@paper.command()
def table(
    dataset: Annotated[
        str, typer.Option(help="synthetic, cifar10, cifar100, femnist or shakespeare.")
    ],
    historical: Annotated[
        float, typer.Option(help="Fraction of historical samples; the paper's: 0.05, 0.2, 0.5.")
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
            help="Learning rates: one, several (0.01,0.1), or by default 'grid', the paper's."
        ),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Communication rounds; default: the task's.")
    ] = None,
    tune_rounds: Annotated[
        int | None, typer.Option(help="Rounds of the tuning runs; default: as many.")
    ] = None,
    tune_seeds: Annotated[
        int | None, typer.Option(help="Seeds of the tuning runs; default: all.")
    ] = None,
    lines: Annotated[
        str | None, typer.Option(help="Only these lines, as Uniform,Ours,Fresh; default: all.")
    ] = None,
    cores: Annotated[int | None, typer.Option(help="Runs at a time; default: one a core.")] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A small version: 20 rounds, one seed, rate 0.1 unless told."),
    ] = False,
    results: Annotated[
        Path | None, typer.Option(help="Folder of the results that are kept.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Run folder; a run that was stopped goes on there.")
    ] = Path("runs/paper"),
    data_dir: Annotated[
        Path | None, typer.Option(help="Where data sets are; default: the user's cache.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print only JSON on standard output.")
    ] = False,
) -> None:
    """One table of the paper, with the paper's figures beside ours.

    Every finished run is stored at once; stop it whenever you like, the same command goes on where
    it was.

    Examples:

      headwater paper table --dataset synthetic --historical 0.2

      headwater paper table --dataset cifar10 --historical 0.2 --rates 0.1 --seeds 3
    """
    from headwater.experiments.parallel import alone
    from headwater.report.paper import print_table
    from headwater.report.progress import CellProgress

    seeds = seeds if seeds is not None else 1 if quick else 3
    rates = rates or ("0.1" if quick else "grid")
    if quick:
        rounds = QUICK_ROUNDS if rounds is None else rounds
        out = out.with_name(out.name + "-quick")
    kept = results or (out / "results" if quick else RESULTS)
    study = _study(
        dataset, historical, seeds, rates, (rounds, tune_rounds, tune_seeds), kept, out, data_dir
    )
    study = replace(study, only=_lines(lines, dataset, historical), command=_typed())
    study.task.split(
        historical, study.setup.rounds, 0
    )  # what cannot be is found before a folder is made
    with alone(study.folder):
        study.run(CellProgress, cores)
    print_table(kept, dataset, historical, as_json)


def _study(
    dataset: str,
    historical: float,
    seeds: int,
    rates: str,
    sizes: tuple[int | None, int | None, int | None],
    kept: Path,
    out: Path,
    data_dir: Path | None,
) -> Any:
    from headwater.cli.run import check_setup, parse_rates
    from headwater.experiments.cells import Setup
    from headwater.experiments.paper.index import Tuning
    from headwater.experiments.paper.study import Study
    from headwater.experiments.tasks.find import find_task as find

    task = find(dataset, data_dir)
    usual = task.defaults
    rounds, tune_rounds, tune_seeds = sizes
    setup = Setup(
        historical, usual.rounds if rounds is None else rounds, usual.local_steps, usual.batch_size
    )
    check_setup(setup, seeds)
    grid = tuple(parse_rates(rates, usual.rates, "--rates"))
    usual_seeds = (
        seeds if len(grid) > 1 else 1
    )  # a single rate is not tuned, whatever the number of seeds
    tuning = Tuning(
        grid,
        setup.rounds if tune_rounds is None else tune_rounds,
        usual_seeds if tune_seeds is None else tune_seeds,
    )
    if tuning.rounds < 1 or not 1 <= tuning.seeds <= seeds:
        raise InputError(
            f"--tune-rounds: at least 1, --tune-seeds: from 1 to {seeds}; got {tuning.rounds}, "
            f"{tuning.seeds}"
        )
    return Study(task, setup, seeds, tuning, kept, out / f"{dataset}-{100 * historical:g}")


def _lines(text: str | None, dataset: str, historical: float) -> tuple[str, ...] | None:
    """Line names as typed, in any case."""
    from headwater.experiments.paper.rows import lines

    if text is None:
        return None
    known = {
        name.lower().replace(",", "").replace(" ", "-"): name for name in lines(dataset, historical)
    }
    asked = [part.strip().lower() for part in text.split(",") if part.strip()]
    unknown = [part for part in asked if part not in known]
    if unknown or not asked:
        raise InputError(
            f"--lines: unknown line {(unknown or [text])[0]!r}; there are: {', '.join(known)}"
        )
    return tuple(known[part] for part in asked)


def _typed() -> str:
    return shlex.join(["headwater", *sys.argv[1:]])


@paper.command()
def figure(dataset: Dataset, results: Results = RESULTS) -> None:
    """Accuracy over rounds for the values of p_hist, a panel for each fraction; from what is
    stored."""
    from headwater.report.paper import draw_figure

    typer.echo(draw_figure(results, known(dataset)))


@paper.command()
def card(dataset: Dataset, results: Results = RESULTS) -> None:
    """The card of a data set: settings, tables, figure, agreement with the paper; from what is
    stored."""
    from headwater.report.card import write_card

    typer.echo(write_card(results, known(dataset)))


@paper.command()
def claims(results: Results = RESULTS) -> None:
    """The paper's claims as a checked list; from what is stored."""
    from headwater.report.card import write_claims

    typer.echo(write_claims(results))


def known(dataset: str) -> str:
    """A data set's name, or an error that lists them."""
    from headwater.experiments.paper.published import DATASETS

    if dataset not in DATASETS:
        raise InputError(f"unknown data set {dataset!r}; there are: {', '.join(DATASETS)}")
    return dataset
