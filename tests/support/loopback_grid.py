"""Flower's grid without Flower's processes: messages go straight to the real ClientApp."""

from __future__ import annotations

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.task_identity import TaskIdentity

from headwater.flower.client import node_app


class LoopbackGrid(Grid):
    """Nodes are a mapping from Flower's node number to the socket of a node and its client-id."""

    def __init__(self, nodes, app=None):
        identify()
        self.nodes = dict(nodes)
        self.app = app or node_app()
        self.sent = []  # every message that went out
        self.back = []  # the bytes of every reply that came in
        self.lose = lambda message: False  # a test may lose messages
        self.fail = lambda message: None  # or answer them with an error of Flower's
        self._mail = {}

    run = None

    def set_run(self, run):
        pass

    def create_message(self, *_, **__):
        raise NotImplementedError

    def get_node_ids(self):
        return list(self.nodes)

    def push_messages(self, messages):
        numbers = []
        for message in messages:
            number = f"{len(self.sent)}"
            message.metadata.__dict__["_message_id"] = number
            self.sent.append(message)
            numbers.append(number)
            if not self.lose(message):
                self._mail[number] = message
        return numbers

    def pull_messages(self, message_ids):
        found = []
        for number in message_ids:
            message = self._mail.pop(number, None)
            if message is not None and message.metadata.dst_node_id in self.nodes:
                found.append(self.answer(message))
        self.back += [bytes_of(reply) for reply in found]
        return found

    def send_and_receive(self, messages, *, timeout=None):
        return self.pull_messages(self.push_messages(list(messages)))

    def answer(self, message):
        code = self.fail(message)
        if code is not None:
            return Message(Error(code, "made up"), reply_to=message)
        client, path = self.nodes[message.metadata.dst_node_id]
        config = {"client-id": client, "socket": str(path)}
        context = Context(1, message.metadata.dst_node_id, config, RecordDict(), {})
        return self.app(message, context)


def bytes_of(message):
    """Everything that Flower sends for a message: it and all that is in it, as it is serialised."""
    return b"".join(part.deflate() for part in get_all_nested_objects(message).values())


def identify():
    """Messages can be made only where Flower has told a process who it is."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
