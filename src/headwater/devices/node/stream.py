"""The thread that brings a source's messages into the memory."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from headwater.devices.intake import Intake
from headwater.devices.logs import Sparingly
from headwater.devices.memory.database import DiskFullError
from headwater.devices.settings import NodeSettings
from headwater.devices.sources import Delivery, Source

log = logging.getLogger(__name__)

_RETRY = 1.0  # seconds between two attempts while the disk is full


class Pace:
    """At most so many messages per second, on average; a second's worth may come at once.

    >>> pace = Pace(per_second=10.0, now=0.0)
    >>> pace.wait(10, now=0.0), pace.wait(5, now=0.0), pace.wait(5, now=2.0)
    (0.0, 0.5, 0.0)
    """

    def __init__(self, per_second: float | None, now: float) -> None:
        self._rate, self._allowed, self._then = per_second, per_second or 0.0, now

    def wait(self, count: int, now: float) -> float:
        """Seconds to wait before these messages may be taken in."""
        if self._rate is None:
            return 0.0
        earned = (now - self._then) * self._rate
        self._then = now
        self._allowed = min(self._rate, self._allowed + earned) - count
        return max(0.0, -self._allowed / self._rate)


class Stream(threading.Thread):
    """Takes in what a source delivers until it ends, fails, or is stopped.

    Attributes:
        failure: what ended it, if it should not have ended.
        waiting_for_disk: is there no room at the moment?
        dropped: messages let go because the disk was full.
    """

    def __init__(
        self,
        source: Source,
        intake: Intake,
        settings: NodeSettings,
        stop: threading.Event,
        ended: Callable[[], None],
    ) -> None:
        super().__init__(name="stream", daemon=True)
        self._source, self._intake, self._stop_event = source, intake, stop
        self._drop = settings.memory.on_full_disk == "drop"
        self._pace = Pace(settings.limits.per_second, time.monotonic())
        self._ended, self._sparingly = ended, Sparingly(log)
        self.failure: BaseException | None = None
        self.waiting_for_disk = False
        self.dropped = 0

    def run(self) -> None:
        """Bring in delivery after delivery."""
        try:
            for delivery in self._source.deliveries(self._intake.memory.state, self._stop_event):
                self._wait(self._pace.wait(len(delivery.messages), time.monotonic()))
                if not self._take(delivery):
                    return
            log.info("the stream has ended" if not self._stop_event.is_set() else "stream stopped")
        except Exception as error:
            log.exception("the stream failed")
            self.failure = error
            self._ended()

    def _take(self, delivery: Delivery) -> bool:
        """Make a delivery safe, or let it go if the settings say so; False: stopped before."""
        while True:
            try:
                self._intake.take(delivery.messages, delivery.remember)
            except DiskFullError:
                self.waiting_for_disk = True
                if self._drop:
                    self._let_go(delivery)
                    return True
                self._sparingly.warning("disk full: the stream waits", 1)
                if self._wait(_RETRY):
                    return False
            else:
                self.waiting_for_disk = False
                delivery.safe()
                return True

    def _let_go(self, delivery: Delivery) -> None:
        self.dropped += len(delivery.messages)
        self._sparingly.warning("disk full: messages dropped", len(delivery.messages))
        delivery.safe()

    def _wait(self, seconds: float) -> bool:
        """Wait unless there is a stop; was there one?"""
        return self._stop_event.wait(seconds) if seconds > 0 else self._stop_event.is_set()
