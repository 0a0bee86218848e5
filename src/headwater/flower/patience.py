"""Waiting for clients: as long as it may be worth it, and no longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from headwater.errors import InputError
from headwater.flower.presence import Presence
from headwater.flower.settings import Settings


class QuorumError(InputError):
    """Too few clients for too long."""


class Patience:
    """How long a run waits for its clients.

    Args:
        presence: who is connected.
        settings: how long, and for how many.
        stop: set by a signal; nobody is waited for any more then.
    """

    def __init__(self, presence: Presence, settings: Settings, stop: threading.Event) -> None:
        self._presence, self._settings, self._stop = presence, settings, stop

    def wait(self, ready: Callable[[float], bool], what: str) -> None:
        """Meet clients until something is so, or a signal comes.

        Args:
            ready: is it so, after that many seconds?
            what: is waited for.
        """
        began = time.monotonic()
        while not self._stop.is_set() and not ready(time.monotonic() - began):
            self.check(began, what)
            for _ in self._presence.answers():
                pass  # only descriptions are expected
            self._presence.pause()

    def check(self, began: float, what: str) -> None:
        """Too few for too long is an error; the checkpoint stays."""
        settings, waited = self._settings, time.monotonic() - began
        if settings.patience is not None and waited > settings.patience:
            there = len(self._presence.clients)
            raise QuorumError(
                f"{there} clients are connected after {waited:.0f} s, too few for {what} "
                f"(min_clients={settings.min_clients}, quorum={settings.quorum:g}); "
                "started again, the run goes on where it was"
            )
