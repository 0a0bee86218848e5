"""When to ask again: after a while, then after twice as long, and so on.

A SuperNode works on one message after the other, and none can be called back. A slow one that was
asked faster than it answers would never be through with old questions.
"""

from __future__ import annotations

import time

_DOUBLINGS = 6  # how often the time until the next question is doubled


class BackOff:
    """The times at which somebody is asked.

    Args:
        seconds: from the first question to the second.
        begun: the first question was asked just now; else it is due at once.
    """

    def __init__(self, seconds: float, begun: bool = False) -> None:
        self._seconds = seconds
        self._times = 0
        self._next = time.monotonic()
        if begun:
            self._next += seconds

    def due(self) -> bool:
        """Is it time to ask? Then it is taken as asked."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._seconds * 2 ** min(self._times, _DOUBLINGS)
        self._times += 1
        return True

    def soon(self, seconds: float) -> None:
        """Ask again after so many seconds: it is known that no answer will come."""
        self._next = time.monotonic() + seconds
