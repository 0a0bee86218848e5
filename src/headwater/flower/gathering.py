"""A round's updates, from the first question to the last answer that counts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from flwr.app import RecordDict

from headwater.flower import messages
from headwater.flower.back_off import BackOff
from headwater.flower.patience import Patience
from headwater.flower.presence import Presence
from headwater.flower.settings import Settings
from headwater.flower.tally import Tally, Verdict


class Gathering:
    """Asks the clients of a round, and asks again those that failed.

    Args:
        presence: the clients, and the letters to them.
        settings: deadline, quorum, and when to ask again.
        patience: how long to wait below the quorum.
        stop: set by a signal; the round is then given up.
    """

    def __init__(
        self, presence: Presence, settings: Settings, patience: Patience, stop: threading.Event
    ) -> None:
        self._presence, self._settings = presence, settings
        self._patience, self._stop = patience, stop
        self._asking: dict[int, BackOff] = {}

    def fill(self, tally: Tally, request: Callable[[int], RecordDict], began: float) -> None:
        """Until all have answered, or the deadline has passed and the quorum is there.

        Args:
            tally: of the round; answers are counted in it.
            request: what a client is asked, by its place in the round.
            began: when the round began.
        """
        self._asking.clear()
        while tally.waiting and not self._stop.is_set():
            self._ask(tally, request)
            self._take(tally)
            if time.monotonic() > began + self._settings.longest_round:
                if tally.reached(self._settings.quorum):
                    break
                self._patience.check(began, f"a quorum in round {tally.plan.number}")
            if tally.waiting:
                self._presence.pause()
        self._presence.close()

    def _ask(self, tally: Tally, request: Callable[[int], RecordDict]) -> None:
        """Ask whoever was not asked yet, or long ago; who is not connected is waited for."""
        connected = self._presence.nodes
        for m in sorted(tally.waiting):
            if self._presence.roster[m].node in connected and self._times_of(m).due():
                content = request(tally.place[m])
                self._presence.post(messages.TRAIN, m, content, tally.plan.number)

    def _times_of(self, m: int) -> BackOff:
        return self._asking.setdefault(m, BackOff(self._settings.ask_again))

    def _take(self, tally: Tally) -> None:
        for tag, reply in self._presence.answers():
            if tag.kind == messages.TRAIN and tally.take(tag.number, reply) is Verdict.AGAIN:
                # Not at once: what just died needs a moment to come back.
                self._times_of(tag.number).soon(1.0)
