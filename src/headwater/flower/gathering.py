"""A round's updates, from the first question to the last answer that counts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from flwr.app import RecordDict

from headwater.flower import messages
from headwater.flower.patience import Patience
from headwater.flower.presence import Presence
from headwater.flower.settings import Settings
from headwater.flower.tally import Tally, Verdict

_DOUBLINGS = 6  # how often the time until a client is asked again is doubled


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
        self._due: dict[int, float] = {}  # when a client is asked, or asked again
        self._times: dict[int, int] = {}  # how often it was asked in this round

    def fill(self, tally: Tally, request: Callable[[int], RecordDict], began: float) -> None:
        """Until all have answered, or the deadline has passed and the quorum is there.

        Args:
            tally: of the round; answers are counted in it.
            request: what a client is asked, by its place in the round.
            began: when the round began.
        """
        self._due, self._times = {}, {}
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
        now = time.monotonic()
        due = [m for m in sorted(tally.waiting) if self._due.get(m, now) <= now]
        connected = self._presence.nodes if due else set()
        for m in due:
            if self._presence.roster[m].node in connected:
                # A SuperNode works on one message after the other and none can be called back. A
                # slow one that is asked faster than it answers would never be through with them.
                times = self._times.get(m, 0)
                self._due[m] = now + self._settings.ask_again * 2 ** min(times, _DOUBLINGS)
                self._times[m] = times + 1
                content = request(tally.place[m])
                self._presence.post(messages.TRAIN, m, content, tally.plan.number)

    def _take(self, tally: Tally) -> None:
        for tag, reply in self._presence.answers():
            if tag.kind == messages.TRAIN and tally.take(tag.number, reply) is Verdict.AGAIN:
                # Not at once: what just died needs a moment to come back.
                self._due[tag.number] = time.monotonic() + 1.0
