"""The thin app beside a node: it hands Flower's messages to the resident process and back.

Flower starts a new Python process for every message. So nothing is kept here and PyTorch is never
loaded: stream, memory and model live in the resident node (``headwater node``), behind a socket
whose path stands in the SuperNode's ``--node-config``:

    client-id="gateway-7" socket="/run/headwater/gateway-7/node.sock"

Flower's simulation has no SuperNodes and gives its clients numbers only. There the run's own
settings say where the nodes are, with {} for the number: ``sockets = "/tmp/fleet/{}/node.sock"``.

A node that is just restarting is waited for; since its work is idempotent per run and round, asking
again can do no harm.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from headwater.devices.wire import Frame, ask
from headwater.errors import InputError
from headwater.flower import messages
from headwater.flower.version import check

_PATIENCE = 30.0  # seconds that a node may take to come back
_WORK = 3600.0  # seconds without a byte from a node that has taken a request


class NodeRefusedError(Exception):
    """The node will not do what was asked, now or ever."""


class NodeAwayError(Exception):
    """The node could not be reached."""


def node_app(mods: Sequence[Any] = ()) -> ClientApp:
    """The ClientApp of a node.

    Args:
        mods: Flower's modifiers for training messages, such as ``LocalDpMod`` or
            ``fixedclipping_mod``; they see the parameters that leave the node.
    """
    check()
    app = ClientApp()
    app.train(mods=list(mods))(_answered(train))
    app.evaluate()(_answered(evaluate))
    app.query("describe")(_answered(describe))
    return app


def describe(message: Message, context: Context) -> RecordDict:  # noqa: ARG001 (handlers are alike)
    """Who this is, and what it holds."""
    client, path = identity(context)
    reply = ask_node(path, Frame({"do": "describe"}))
    header = dict(reply.header) | {"client-id": client}
    return messages.request(header)


def train(message: Message, context: Context) -> RecordDict:
    """The local steps of a round: θ(t) in, θ_m out."""
    arrays = messages.arrays_of(message.content)
    parameters = messages.flatten(arrays)
    header = messages.header_of(message.content) | {"do": "train"}
    sent = {"parameters": parameters, **messages.selection_of(message.content)}
    reply = ask_node(identity(context)[1], Frame(header, sent))
    move = reply.arrays.get("move")
    if move is None or move.shape != parameters.shape:
        raise NodeRefusedError(f"the node's move has shape {getattr(move, 'shape', None)}")
    local = (parameters + move).astype(parameters.dtype)
    numbers = messages.metrics(reply.header)
    numbers["num-examples"] = _whole(reply, "held")  # for strategies of Flower's own
    return RecordDict({"arrays": messages.unflatten(local, arrays), "metrics": numbers})


def evaluate(message: Message, context: Context) -> RecordDict:
    """How good the parameters are on the node's own test samples."""
    parameters = messages.flatten(messages.arrays_of(message.content))
    header = messages.header_of(message.content) | {"do": "evaluate"}
    reply = ask_node(identity(context)[1], Frame(header, {"parameters": parameters}))
    numbers = messages.metrics(reply.header)
    numbers["num-examples"] = _whole(reply, "count")
    return RecordDict({"metrics": numbers})


def identity(context: Context) -> tuple[str, Path]:
    """The client's own name and its node's socket, from the SuperNode's configuration."""
    config = context.node_config
    client, socket = config.get("client-id"), config.get("socket")
    if isinstance(client, str) and isinstance(socket, str):
        return client, Path(socket)
    number, pattern = config.get("partition-id"), context.run_config.get("sockets")
    if number is not None and isinstance(pattern, str) and "{}" in pattern:
        return f"node{number}", Path(pattern.replace("{}", str(number)))
    raise InputError(
        'flower-supernode --node-config: \'client-id="NAME" socket="/path/node.sock"\' is needed '
        "(in Flower's simulation: flwr run -c 'sockets=\"/path/{}/node.sock\"'); "
        f"got {dict(config)!r}"
    )


def ask_node(path: Path, frame: Frame, patience: float = _PATIENCE) -> Frame:
    """Ask the node; wait for one that is away, and ask again if it died over the work."""
    deadline = time.monotonic() + patience
    while True:
        try:
            reply = ask(path, frame, _WORK)
        except OSError as error:  # no socket, nobody behind it, or it broke off
            if time.monotonic() > deadline:
                raise NodeAwayError(f"no node answers at {path}: {error}") from error
            time.sleep(0.2)
            continue
        if "error" in reply.header:
            raise NodeRefusedError(f"{reply.header['error']}: {reply.header.get('message', '')}")
        return reply


def _whole(reply: Frame, name: str) -> int:
    value = reply.header.get(name)
    return int(value) if isinstance(value, int | float) else 0


def _answered(work: Any) -> Any:
    """A handler that answers with an error of ours where the node cannot help."""

    def handler(message: Message, context: Context) -> Message:
        try:
            return Message(work(message, context), reply_to=message)
        except NodeAwayError as error:
            return Message(Error(messages.AWAY, str(error)), reply_to=message)
        except (NodeRefusedError, InputError) as error:
            return Message(Error(messages.REFUSED, str(error)), reply_to=message)

    return handler


app = node_app()
