"""``headwater fleet``: a whole federation on one machine, up and down with one command each."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from headwater.cli.help_text import with_flowing_help
from headwater.cli.main import app
from headwater.cli.options import AsJson
from headwater.errors import InputError

if TYPE_CHECKING:
    from headwater.flower.deployment.layout import Fleet
    from headwater.flower.deployment.processes import Part
    from headwater.flower.deployment.streams import Recorded

HELP = """A whole federation on this machine: broker, SuperLink, nodes and streams.

Example:

  headwater fleet up --detach     (four stations of air quality begin to learn)

  headwater fleet status          (round, errors, clients, processes)

  headwater fleet down            (nothing is left running; its folder stays)
"""
fleet_app = typer.Typer(no_args_is_help=True, help=HELP)
app.add_typer(fleet_app, name="fleet")
Folder = Annotated[Path, typer.Option(help="Where the fleet lives.")]


@fleet_app.command()
@with_flowing_help
def up(
    folder: Folder = Path("fleet"),
    clients: Annotated[int, typer.Option(help="How many clients.")] = 4,
    historical: Annotated[
        int, typer.Option(help="How many of them have all samples from the start.")
    ] = 1,
    csv: Annotated[
        Path | None, typer.Option(help="Streams of your own; default: air quality in Beijing.")
    ] = None,
    client_column: Annotated[str, typer.Option(help="Whose row it is, in --csv.")] = "client",
    label_column: Annotated[str, typer.Option(help="The class, in --csv.")] = "label",
    per_second: Annotated[float, typer.Option(help="Samples that each stream brings.")] = 5.0,
    capacity: Annotated[int, typer.Option(help="Samples that a stream's client can keep.")] = 128,
    strategy: Annotated[
        str, typer.Option(help="How much clients count: online, uniform, optimal-0.15, …")
    ] = "online",
    rounds: Annotated[int, typer.Option(help="Rounds; 0: until fleet down.")] = 0,
    local_steps: Annotated[int, typer.Option(help="Gradient steps of a client per round.")] = 5,
    learning_rate: Annotated[float, typer.Option(help="Of these steps.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Of model and batches.")] = 0,
    broker: Annotated[
        bool, typer.Option("--broker/--no-broker", help="Streams over MQTT (needs mosquitto).")
    ] = True,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="No TLS, no node keys. Only to look at the bytes.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return as soon as the first round is done.")
    ] = False,
) -> None:
    """Bring up broker, SuperLink, nodes and streams, and watch them learn.

    Certificates and node keys are made for it. Ctrl-C stops watching and takes the fleet down;
    with --detach it goes on, and 'fleet status' and 'fleet down' find it by its folder. A fleet
    that was taken down goes on where it was when it is brought up again.

    Examples:

      headwater fleet up

      headwater fleet up --clients 12 --historical 3 --strategy optimal-0.15 --detach

      headwater fleet up --csv rooms.csv --client-column room --label-column occupied
    """
    from headwater.flower.deployment.certificates import renew
    from headwater.flower.deployment.layout import Fleet, Learning, make_private, prepare
    from headwater.flower.deployment.processes import members
    from headwater.flower.deployment.streams import air_quality, from_csv
    from headwater.flower.version import check

    check()
    folder = folder.resolve()
    if members(folder):
        raise InputError(f"{folder}: a fleet is up there; headwater fleet down ends it")
    console = Console()
    if insecure:
        console.print("[bold red]--insecure:[/] no encryption, and anybody may be a node.")
    if (folder / "fleet.json").exists():
        fleet = Fleet.load(folder)
        make_private(folder)
        if fleet.server_files is not None:
            renew(fleet.server_files)
        console.print(f"{folder}: going on with the fleet that is there, with its own settings.")
    else:
        streams = (
            air_quality(clients)
            if csv is None
            else from_csv(csv, client_column, label_column, clients)
        )
        learning = Learning(strategy, rounds, local_steps, 32, learning_rate, seed)
        check_settings(streams, historical, per_second, strategy)
        fleet = Fleet(
            folder,
            streams.clients,
            streams.clients[:historical],
            capacity,
            per_second,
            broker,
            not insecure,
            learning=learning,
        )
        prepare(fleet, streams)
    part = start(fleet)
    watch(fleet, part, console, detach)


def check_settings(streams: Recorded, historical: int, per_second: float, strategy: str) -> None:
    """Refuse what cannot be, by the names of the options."""
    from headwater.ledger.registry import named

    named(strategy)
    if not 0 <= historical <= len(streams.clients):
        raise InputError(f"--historical: from 0 to {len(streams.clients)}; got {historical}")
    if not 0 < per_second <= 10_000:
        raise InputError(f"--per-second: above 0, up to 10000; got {per_second:g}")


def start(fleet: Fleet) -> Part:
    """Start the supervisor, which starts all the rest."""
    from headwater.flower.deployment import broker
    from headwater.flower.deployment.processes import environment, launch

    if fleet.broker and broker.find() is None:
        raise InputError(
            "mosquitto, the MQTT broker, is not installed: apt install mosquitto, or say "
            "--no-broker, and the nodes replay their streams themselves"
        )
    module = "headwater.flower.deployment.supervisor"
    command = [sys.executable, "-m", module, str(fleet.folder)]
    return launch(fleet.folder, "supervisor", command, environment(fleet.folder))


def watch(fleet: Fleet, part: Part, console: Console, detach: bool) -> None:
    """Show the fleet until Ctrl-C, or until its first round if it is to be left alone."""
    from rich.live import Live

    from headwater.flower.deployment.processes import end
    from headwater.flower.deployment.view import snapshot
    from headwater.report.fleet_view import fleet_panel

    console.print(f"Live page: {fleet.page}", soft_wrap=True, highlight=False)
    try:
        with Live(console=console, refresh_per_second=2, transient=detach) as live:
            while part.alive:
                now = snapshot(fleet)
                live.update(fleet_panel(now))
                if detach and now["round"]:
                    break
                time.sleep(0.5)
            else:
                raise InputError(f"the supervisor ended; its log is {part.log}")
    except KeyboardInterrupt:
        console.print("Taking the fleet down …")
        end(fleet.folder)
        return
    except InputError:
        end(fleet.folder)
        raise
    console.print(f"The fleet is up. headwater fleet down --folder {fleet.folder} ends it.")


@fleet_app.command()
@with_flowing_help
def status(
    folder: Folder = Path("fleet"),
    as_json: AsJson = False,
) -> None:
    """Show a fleet as it is now: round, errors, clients, processes."""
    from headwater.flower.deployment.layout import Fleet
    from headwater.flower.deployment.view import snapshot
    from headwater.report.fleet_view import fleet_panel

    fleet = Fleet.load(folder)
    now = snapshot(fleet)
    if as_json:
        sys.stdout.write(json.dumps(now, indent=2) + "\n")
        return
    console = Console()
    console.print(fleet_panel(now))
    console.print(f"Live page: {fleet.page}", soft_wrap=True, highlight=False)


@fleet_app.command()
@with_flowing_help
def down(
    folder: Folder = Path("fleet"),
    remove: Annotated[
        bool, typer.Option("--remove", help="Delete the folder as well: memories, models, logs.")
    ] = False,
) -> None:
    """End every process of a fleet, also if the command that started it was killed."""
    from headwater.flower.deployment.layout import Fleet
    from headwater.flower.deployment.processes import end, members

    fleet = Fleet.load(folder)
    ended = end(fleet.folder)
    left = members(fleet.folder)
    if remove:
        shutil.rmtree(fleet.folder)
    kept = "deleted" if remove else "kept; fleet up goes on from there"
    Console().print(f"{ended} processes ended, {len(left)} left; {fleet.folder} is {kept}")
