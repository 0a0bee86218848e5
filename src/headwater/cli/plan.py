"""``headwater plan``: who should count how much, and what it is predicted to cost."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from headwater.cli.main import app
from headwater.cli.plan_subject import Ratio, Subject, from_file, from_task, is_file
from headwater.errors import InputError
from headwater.fleet import Comparison, Outcome, Scenario, compare, what_if
from headwater.fleet.recommendation import recommend


@app.command()
def plan(
    federation: Annotated[
        str, typer.Argument(help="A federation file, .csv or .toml; or a task: synthetic, …")
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
    bound: Annotated[
        str, typer.Option(help="'paper', or 'sharp', which knows of rates and memories.")
    ] = "paper",
    what_ifs: Annotated[
        list[str] | None,
        typer.Option("--what-if", help="A change, see above; give it as often as you like."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write pictures into this folder.")] = None,
    historical: Annotated[
        float | None, typer.Option(help="A task's fraction of historical samples [0.2].")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of a task's data and model.")] = 0,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where a task's data are; default: the user's cache.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print only JSON on standard output.")
    ] = False,
) -> None:
    """Say what importance to give to which client, and what that is predicted to cost.

    A federation file lists the clients. As CSV:

      client,samples,fresh,rate,capacity,count
      server,5000,no,,,1
      sensor,800,yes,8,16,1000

    samples   that a client has, or will see
    fresh     yes: they come as a stream; no: all are there before round 1
    rate      samples a round of a stream (else samples / rounds)
    capacity  newest samples that it can keep (else those of one round)
    count     how many clients are like this one (else 1)

    As TOML: the same keys in tables named client.

    c2/c1 is the price of few samples over the price of noisy gradients. It
    depends on model and data; headwater.learning.estimation finds it from historical
    samples. Without --ratio a task is planned with an estimate, and a file
    with the paper's value for images, 0.15 at 25 fresh clients; the ratio
    falls with the root of their number.

    What-ifs, by the sharper bound, which knows of rates and memories:

      capacity=2x, rate=0.5x    every fresh client
      capacity:sensor=64        one client, or one kind of client
      samples:server=2x, count:sensor=500, leave=server
      rate=2x,capacity=2x       several changes at once

    Examples:

      headwater plan fleet.csv --ratio 0.15 --what-if capacity=2x
      headwater plan synthetic --historical 0.2 --ratio measure --json
    """
    if is_file(federation) and historical is not None:
        raise InputError(
            "--historical is for tasks; a federation file says itself who is historical"
        )
    scenarios = [Scenario.parse(text) for text in what_ifs or []]
    if is_file(federation):
        subject = from_file(federation, rounds)
    else:
        subject = from_task(federation, historical, rounds, seed, data_dir)
    found = subject.ratio(ratio)
    comparison = compare(subject.outlook, found.value, bound)  # type: ignore[arg-type]
    outcomes = (
        what_if(subject.fleet(), scenarios, found.value, subject.outlook.rounds)
        if scenarios
        else []
    )
    pictures = _draw(comparison, plot)
    if as_json:
        from headwater.report.plan_json import plan_json

        about = {
            "federation": subject.name,
            "ratio": {"value": found.value, "source": found.source, **found.parts},
        }
        sys.stdout.write(plan_json(about, comparison, outcomes) + "\n")
    else:
        _print(subject, found, comparison, outcomes, pictures)


def _draw(comparison: Comparison, folder: Path | None) -> list[Path]:
    if folder is None:
        return []
    from headwater.report.plan_pictures import draw

    return draw(comparison, folder)


def _print(
    subject: Subject,
    ratio: Ratio,
    comparison: Comparison,
    outcomes: Sequence[Outcome],
    pictures: list[Path],
) -> None:
    from headwater.report.plan_tables import LONGEST, client_table, strategy_table, what_if_table

    console = Console(highlight=False)
    console.print(_headline(subject), markup=False)
    console.print(f"c2/c1 = {ratio.value:.4g} ({ratio.source})", markup=False)
    if ratio.parts:
        console.print(_ingredients(ratio.parts), markup=False)
    console.print()
    console.print(strategy_table(comparison))
    console.print(recommend(comparison), markup=False, style="bold")
    if comparison.historical_suffices is not None:
        console.print(
            f"Up to c2/c1 = {comparison.historical_suffices:.3g} the historical clients alone "
            "would be best."
        )
    console.print()
    if len(comparison.outlook.names) <= LONGEST:
        console.print(client_table(comparison))
    else:
        console.print(
            f"--json lists the shares of all {len(comparison.outlook.names):,} rows.", markup=False
        )
    if outcomes:
        console.print(what_if_table(outcomes))
    for path in pictures:
        console.print(f"Picture: {path}", soft_wrap=True, markup=False)


def _headline(subject: Subject) -> str:
    o = subject.outlook
    samples = [float(o.group_samples[group].sum()) for group in (~o.fresh, o.fresh)]
    old = float(o.count.sum()) - o.fresh_clients
    return (
        f"{subject.name}: {old:,.0f} historical clients with {samples[0]:,.0f} samples, "
        f"{o.fresh_clients:,.0f} fresh with {samples[1]:,.0f} in {o.rounds:,} rounds"
    )


def _ingredients(parts: dict[str, Any]) -> str:
    paper = ", ".join(f"{name} = {parts[name]:.3g}" for name in "GDB")
    words = f"{paper}, d = {parts['d']:,}, N = {parts['N']:,}"
    if "discrepancy" not in parts:
        return words

    def measured(name: str) -> str:
        return f"{parts[name]['value']:.3g} ± {parts[name]['error']:.2g}"

    start, after = measured("variance_at_start"), measured("variance_after_steps")
    variance = f"σ0² = {start} at the start, {after} after steps"
    return f"{words}\n{variance}; disc = {measured('discrepancy')}"
