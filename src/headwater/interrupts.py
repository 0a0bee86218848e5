"""Ctrl-C and TERM: answered at once until there is something to save, by saving from then on."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
Handler = Callable[[int, FrameType | None], None]


class Interrupted(BaseException):
    """A user, or the system, wants us to stop.

    Attributes:
        code: What the process shall end with: 130 for Ctrl-C, 143 for TERM.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


def stop_at_once() -> None:
    """From now on a signal ends the process in one line: for the seconds of the imports."""
    _handle(_leave)


@contextmanager
def stop_by_saving() -> Iterator[None]:
    """In here a signal is raised as :class:`Interrupted`, so that files are left whole."""
    before = _handle(_raise)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _handle(handler: Handler) -> dict[signal.Signals, Any]:
    if threading.current_thread() is not threading.main_thread():
        return {}  # signals are the main thread's business
    return {number: signal.signal(number, handler) for number in _SIGNALS}


def _leave(number: int, _: FrameType | None) -> None:
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"stopped before round 1\n")
    os._exit(128 + number)


def _raise(number: int, _: FrameType | None) -> None:
    raise Interrupted(number)
