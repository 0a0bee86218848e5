"""A bounded queue between a thread that receives and the one that writes to disk."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")
_PATIENCE = 0.1  # seconds between two looks at whether to stop


@dataclass(frozen=True)
class _End:
    """Nothing more comes, perhaps because of an error."""

    error: BaseException | None


class Inbox(Generic[Item]):
    """Hands over items in batches: all that are there, up to a limit, as soon as there is one.

    A slow disk therefore makes larger batches, and a quick one makes items safe at once.
    """

    def __init__(self, size: int) -> None:
        self._queue: queue.Queue[Item | _End] = queue.Queue(size)

    def put(self, item: Item, stop: threading.Event) -> bool:
        """Hand over an item, waiting for room; False: it was not taken, there is a stop."""
        return self._put(item, stop)

    def offer(self, item: Item) -> bool:
        """Hand over an item if there is room."""
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            return False
        return True

    def end(self, error: BaseException | None, stop: threading.Event) -> None:
        """Say that nothing more comes."""
        self._put(_End(error), stop)

    def batches(self, limit: int, stop: threading.Event) -> Iterator[list[Item]]:
        """Batches until the end or a stop; an error of the receiving thread is raised here."""
        while not stop.is_set():
            batch, end = self._drain(limit)
            if batch:
                yield batch
            if end is not None and end.error is not None:
                raise end.error
            if end is not None:
                return

    def _put(self, item: Item | _End, stop: threading.Event) -> bool:
        while not stop.is_set():
            try:
                self._queue.put(item, timeout=_PATIENCE)
                return True
            except queue.Full:
                continue
        return False

    def _drain(self, limit: int) -> tuple[list[Item], _End | None]:
        batch: list[Item] = []
        try:
            item = self._queue.get(timeout=_PATIENCE)
            while not isinstance(item, _End):
                batch.append(item)
                if len(batch) >= limit:
                    return batch, None
                item = self._queue.get_nowait()
        except queue.Empty:
            return batch, None
        return batch, item
