"""``headwater plan``: who should count how much, and what it is predicted to cost."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from headwater.cli.main import app
from headwater.cli.options import AsJson, DataDir
from headwater.cli.plan_subject import (
    Length,
    Subject,
    from_file,
    from_task,
    is_file,
    parse_horizon,
)
from headwater.errors import InputError
from headwater.files import check_folder
from headwater.fleet import Comparison, Outcome, Scenario, compare, what_if
from headwater.fleet.comparison import as_bound
from headwater.fleet.fleet_file import Watch
from headwater.ledger.registry import REGISTRY
from headwater.ledger.remembered import Remembered
from headwater.report.plan_answer import Answer

_LARGE_FILE = 4_000_000
"""Bytes from which on reading a fleet file takes long enough for a progress bar."""


_STRATEGIES = "\n\n".join(
    f"{entry.name}{'-X' if entry.number else ''}: {entry.about}" for entry in REGISTRY.values()
)


@app.command(epilog=f"Strategies, here and in headwater run:\n\n{_STRATEGIES}")
def plan(
    fleet: Annotated[
        str, typer.Argument(help="A fleet file, .csv or .toml; or a task: synthetic, …")
    ],
    ratio: Annotated[
        str | None,
        typer.Option(
            help="c2/c1. For a task also 'estimate' (the paper's way, the default) or 'measure'."
        ),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Rounds of the run. Default: 100, or the task's own.")
    ] = None,
    local_steps: Annotated[
        int | None,
        typer.Option(help="Gradient steps of a client in a round. Default: 1, or the task's own."),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(help="Samples of a step; 0: all that is held. Default: all, or the task's."),
    ] = None,
    bound: Annotated[
        str, typer.Option(help="'paper', or 'sharp', which knows of rates and memories.")
    ] = "paper",
    horizon: Annotated[
        str,
        typer.Option(help="How long a model remembers: 0.25 (of the run), or 40 (rounds)."),
    ] = "0.25",
    heterogeneity: Annotated[
        str | None,
        typer.Option(help="How much clients differ, from 0. Default: 0; a task's is measured."),
    ] = None,
    what_ifs: Annotated[
        list[str] | None,
        typer.Option("--what-if", help="A change, see above; give it as often as you like."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write pictures into this folder.")] = None,
    historical: Annotated[
        float | None, typer.Option(help="A task's fraction of historical samples [0.2].")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of a task's data and model.")] = 0,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Say what importance to give to which client, and what that is predicted to cost.

    A fleet file lists the clients. As CSV:

      client,samples,fresh,rate,capacity,count
      server,5000,no,,,1
      sensor,800,yes,8,16,1000

    samples   that a client has, or will see
    fresh     yes: they come as a stream; no: all are there before round 1
    rate      samples per round of a stream (else samples / rounds)
    capacity  newest samples that it can keep (else those of one round)
    count     how many clients are like this one (else 1)
    kind      a word that rows share, so that a what-if can name them all

    Semicolons, tabs or vertical bars may separate values as well.
    As TOML: the same keys in tables named client.

    c2/c1 is the price of few samples over the price of noisy gradients. It
    depends on model and data; headwater.estimate finds it from historical
    samples. Without --ratio a task is planned with an estimate, and a file
    with the paper's value for images, 0.15 at 25 fresh clients; the ratio
    falls with the root of their number.

    The line 'remembered' is a rule without c2/c1: clients count by the
    samples that a model remembers of them. --horizon says for how long it
    does, --heterogeneity how much clients differ.

    What-ifs, by the sharper bound, which knows of rates and memories:

      capacity=2x, rate=0.5x    every fresh client
      capacity:sensor=64        one row, or all rows of one kind
      samples:server=2x, count:sensor=500, leave=server
      rate=2x,capacity=2x       several changes at once

    Examples:

      headwater plan fleet.csv --ratio 0.15 --what-if capacity=2x
      headwater plan synthetic --historical 0.2 --ratio measure --json
    """
    scenarios = [Scenario.parse(text) for text in what_ifs or []]
    length = Length(rounds, local_steps, batch_size)
    if is_file(fleet):
        if historical is not None:
            raise InputError(
                "--historical is for tasks; a fleet file says itself who is historical"
            )
        with _watched(fleet) as watch:
            subject = from_file(fleet, length, watch)
    else:
        subject = from_task(fleet, historical, length, seed, data_dir)
    found = subject.ratio(ratio)
    remembered = Remembered(parse_horizon(horizon), subject.heterogeneity(heterogeneity))
    comparison = compare(subject.outlook, found.value, as_bound(bound), remembered)
    outcomes = _judged(subject, scenarios, found.value)
    notes = [*subject.notes]
    answer = Answer(
        name=subject.name,
        ratio=found,
        comparison=comparison,
        outcomes=outcomes,
        notes=notes,
        pictures=_draw(comparison, plot, notes),
    )
    if as_json:
        sys.stdout.write(answer.as_json() + "\n")
    else:
        answer.print(Console(highlight=False))


@contextmanager
def _watched(name: str) -> Iterator[Watch]:
    """A progress bar while a large file is read, if somebody is looking."""
    console = Console(stderr=True)
    path = Path(name)
    if not console.is_terminal or not path.is_file() or path.stat().st_size < _LARGE_FILE:
        yield lambda _fraction: None
        return
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task(f"reading {path.name}", total=1.0)
        yield lambda fraction: progress.update(bar, completed=fraction)


def _judged(subject: Subject, scenarios: Sequence[Scenario], ratio: float) -> Sequence[Outcome]:
    if not scenarios:
        return []
    outlook = subject.outlook
    return what_if(subject.fleet(), scenarios, ratio, outlook.rounds, outlook.drawing)


def _draw(comparison: Comparison, folder: Path | None, notes: list[str]) -> list[Path]:
    """Write the pictures; where there is nothing to draw, a note says why."""
    if folder is None:
        return []
    from headwater.report.plan_pictures import draw, nothing_to_draw

    reason = nothing_to_draw(comparison)
    if reason is not None:
        notes.append(f"No pictures: {reason}.")
        return []
    check_folder("--plot", folder)
    return draw(comparison, folder)
