"""Letters to nodes and their answers, one at a time: push, pull, never wait in vain.

Flower's own ``send_and_receive`` sleeps three seconds between two looks and holds all replies in a
list. Here a reply is handed over as soon as it is there, and dropped before the next is pulled: the
server's memory does not grow with the number of clients.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
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
        self._open: dict[str, tuple[Tag, float]] = {}  # and when Flower will have dropped it

    def post(self, tag: Tag, node: int, kind: str, content: RecordDict, group: str = "") -> None:
        """Send a message; its answer will come back with the tag."""
        message = Message(
            content=content, dst_node_id=node, message_type=kind, ttl=self._ttl, group_id=group
        )
        for number in self._grid.push_messages([message]):
            if number is not None:  # Flower's way to say that a message could not be sent
                self._open[number] = tag, time.monotonic() + self._ttl

    def answers(self) -> Iterator[tuple[Tag, Message]]:
        """The answers that are there now; each is emptied when the next is asked for."""
        now = time.monotonic()
        self._open = {number: kept for number, kept in self._open.items() if kept[1] > now}
        numbers = list(self._open)
        for start in range(0, len(numbers), self._together):
            for reply in self._grid.pull_messages(numbers[start : start + self._together]):
                # An error may come from the SuperLink in a node's name: only the number tells whose
                sent = self._open.pop(reply.metadata.reply_to_message_id, None)
                if sent is not None:
                    yield sent[0], reply
                if reply.has_content():
                    # Flower's records refer to each other in circles: without this an update stays
                    # in memory until Python looks for such circles, which may be a hundred later.
                    for record in reply.content.values():
                        record.clear()

    def forget(self, gone: Callable[[Tag], bool]) -> None:
        """Whatever is answered from now on is too late, where a letter's tag says so."""
        self._open = {number: kept for number, kept in self._open.items() if not gone(kept[0])}

    @staticmethod
    def pause() -> None:
        """Give the nodes a moment."""
        time.sleep(_POLL)
