"""Letters to nodes and their answers, one at a time: push, pull, never wait in vain.

Flower's own ``send_and_receive`` sleeps three seconds between two looks and holds all replies in a
list. Here a reply is handed over as soon as it is there, and dropped before the next is pulled: the
server's memory does not grow with the number of clients.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Generic, TypeVar

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

Tag = TypeVar("Tag")
_BYTES = 1 << 26  # of replies that may be in memory at once
_POLL = 0.2  # seconds between two looks


class Exchange(Generic[Tag]):
    """Messages that were sent and not yet answered.

    Args:
        grid: Flower's connection to the nodes.
        ttl: seconds after which Flower may drop a message and its reply.
        reply_bytes: how large a reply is expected to be.
    """

    def __init__(self, grid: Grid, ttl: float, reply_bytes: int) -> None:
        self._grid = grid
        self._ttl = ttl
        self._together = max(1, _BYTES // max(1, reply_bytes))
        self._open: dict[str, Tag] = {}

    def post(self, tag: Tag, node: int, kind: str, content: RecordDict, group: str = "") -> None:
        """Send a message; its answer will come back with the tag."""
        message = Message(
            content=content, dst_node_id=node, message_type=kind, ttl=self._ttl, group_id=group
        )
        for number in self._grid.push_messages([message]):
            if number is not None:  # Flower's way to say that a message could not be sent
                self._open[number] = tag

    def answers(self) -> Iterator[tuple[Tag, Message]]:
        """The answers that are there now; each is emptied when the next is asked for."""
        numbers = list(self._open)
        for start in range(0, len(numbers), self._together):
            for reply in self._grid.pull_messages(numbers[start : start + self._together]):
                # An error may come from the SuperLink in a node's name: only the number tells whose
                tag = self._open.pop(reply.metadata.reply_to_message_id, None)
                if tag is not None:
                    yield tag, reply
                if reply.has_content():
                    # Flower's records refer to each other in circles: without this an update stays
                    # in memory until Python looks for such circles, which may be a hundred later.
                    for record in reply.content.values():
                        record.clear()

    def forget(self) -> None:
        """Whatever is answered from now on is too late."""
        self._open.clear()

    @staticmethod
    def pause() -> None:
        """Give the nodes a moment."""
        time.sleep(_POLL)
