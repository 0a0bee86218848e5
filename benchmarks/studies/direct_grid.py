"""Flower's grid without Flower's processes: messages go straight to the nodes' sockets.

The client app and the strategy are the package's own, and a message is Flower's own; only the
SuperLink, the SuperNodes and a new process per message are left out. A round takes what the nodes
take, and many rounds with many nodes fit on a small machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from headwater.flower.client import node_app


class DirectGrid(Grid):
    """Nodes are numbered from 1; each has a client-id and a socket."""

    run = None

    def __init__(self, sockets: dict[str, Path]) -> None:
        # messages can be made only where Flower has told a process who it is
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        self._nodes = dict(enumerate(sockets.items(), 1))
        self._app = node_app()
        self._waiting: dict[str, Message] = {}
        self._sent = 0

    def set_run(self, run: object) -> None:
        pass

    def create_message(self, *_: object, **__: object) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> list[int]:
        return list(self._nodes)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        numbers = []
        for message in messages:
            self._sent += 1
            number = str(self._sent)
            message.metadata.__dict__["_message_id"] = number
            self._waiting[number] = message
            numbers.append(number)
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Messages are answered when their answers are asked for, one after the other."""
        waiting = [self._waiting.pop(number, None) for number in message_ids]
        return [self._answer(message) for message in waiting if message is not None]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        del timeout  # a socket answers or breaks
        return self.pull_messages(self.push_messages(messages))

    def _answer(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        client, socket = self._nodes[node]
        config = {"client-id": client, "socket": str(socket)}
        return self._app(message, Context(1, node, config, RecordDict(), {}))
