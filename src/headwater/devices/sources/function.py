"""A user's own function as a source."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from functools import partial

from headwater.devices.intake.mapping import Message
from headwater.devices.memory.state import State
from headwater.devices.settings.named import load
from headwater.devices.settings.sources import PythonSettings
from headwater.devices.sources.inbox import Inbox
from headwater.devices.sources.source import Delivery
from headwater.errors import InputError

_MARK = "python items"


class FunctionSource:
    """Items that a generator yields, received in a thread of its own.

    A function that takes an argument gets the number of items that are safe already, and can go on
    after a restart; one that takes none starts anew.
    """

    def __init__(self, settings: PythonSettings, batch: int) -> None:
        self._function = load(settings.call, "source.call")
        if not callable(self._function):
            raise InputError(f"source.call: {settings.call} cannot be called")
        self._batch = batch

    def deliveries(self, state: State, stop: threading.Event) -> Iterator[Delivery]:
        """Batches of what was yielded."""
        done = state.number(_MARK)
        inbox: Inbox[Message] = Inbox(2 * self._batch)
        takes_start = bool(inspect.signature(self._function).parameters)
        arguments = (done,) if takes_start else ()
        threading.Thread(target=self._pump, args=(inbox, arguments, stop), daemon=True).start()
        for batch in inbox.batches(self._batch, stop):
            done += len(batch)
            yield Delivery(batch, partial(state.set, _MARK, done))

    def _pump(
        self, inbox: Inbox[Message], arguments: tuple[int, ...], stop: threading.Event
    ) -> None:
        try:
            for item in self._function(*arguments):
                if not inbox.put(item, stop):
                    return
        except Exception as error:
            inbox.end(error, stop)
        else:
            inbox.end(None, stop)
