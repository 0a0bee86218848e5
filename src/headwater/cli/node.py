"""``headwater node``: one client of a live federation, as a resident process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.help_text import with_flowing_help
from headwater.cli.main import app
from headwater.errors import InputError

EXAMPLE = """\
client = "station-3"          # the client-id of its SuperNode
folder = "station-3"          # memory and socket; paths are relative to this file

[memory]
rule = "fifo"                 # keep, fifo, reservoir, or module:name of your own
capacity = 256                # samples, however long the stream
# survives = "power loss"     # an fsync per batch; "kill": without, safe against kill -9
# on_full_disk = "drop"       # instead of "wait"

[samples]                     # from the fields of a message to a sample
features = ["temperature", "sensor.humidity"]
label = "rain"
classes = ["no", "yes"]       # or a number of classes; without: the label is a number
# id = "uid"                  # with late_labels: labels that come in messages of their own
# late_labels = 1000          # how many samples may wait for theirs
# once = 10000                # a sample whose id is among so many of the newest is not taken again

[samples.scaling]
temperature = { mean = 12.5, scale = 8.0 }
"sensor.humidity" = { range = [0, 100] }

[model]                       # the server's model
kind = "linear"               # linear, perceptron (hidden = [32]), python (make = "module:name")

[source]                      # one of:
kind = "lines"                # a message per line of JSON: a file, a named pipe, or standard input
path = "-"
# kind = "mqtt"               # TLS unless tls = false
# host = "broker.example"
# topics = ["stations/3/#"]
# username = "station-3"
# password_file = "password"
# kind = "csv"                # path = "recorded.csv" and per_second = 5, speed = 60, or
#                             # arrivals = { kind = "constant", rate = 4 }: by rounds
# kind = "python"             # call = "module:function" that yields records

[log]
format = "json"

# [metrics]                   # Prometheus text on http://127.0.0.1:9464/metrics
# port = 9464
"""


@app.command()
@with_flowing_help
def node(
    settings: Annotated[
        Path | None, typer.Argument(metavar="NODE.toml", help="The node's settings.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check the settings, say what would run, and end.")
    ] = False,
    example: Annotated[
        bool, typer.Option("--example", help="Print a commented NODE.toml to start from.")
    ] = False,
) -> None:
    """Run one client on a device: take its stream into a bounded memory, train when asked.

    The node stays alive beside a Flower SuperNode: it holds the memory on disk, the model, and the
    stream (MQTT, lines of JSON, a CSV file, or a function of yours). Whoever may train asks it over
    a local socket. Samples never leave it. TERM or Ctrl-C stop it cleanly; after kill -9 it goes on
    where it was.

    NODE.toml has the node's settings; --example prints one that explains them, and --check tries
    everything in it that can be tried without starting: model, source, header, rights, password.

    Examples:

      headwater node --example > NODE.toml

      headwater node NODE.toml --check

      headwater node NODE.toml
    """
    if example:
        typer.echo(EXAMPLE, nl=False)
        return
    if settings is None:
        raise InputError("NODE.toml: give the node's settings; --example prints some to start from")
    from headwater.devices.logs import start_logging
    from headwater.devices.settings.node_file import read

    content = read(settings)  # before PyTorch is loaded: a mistake is told at once
    sys.path.insert(0, str(settings.resolve().parent))  # modules named in the file lie beside it
    if check:
        from headwater.devices.node.summary import summary

        typer.echo(summary(content))
        return
    from headwater.devices.node.service import serve, stop_at_signals

    start_logging(content.log)
    if not serve(content, stop_at_signals()):
        raise typer.Exit(1)
