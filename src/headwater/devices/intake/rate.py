"""How many samples per second have come lately."""

from __future__ import annotations

import threading
from collections import deque

_SECONDS = 60.0


class RecentRate:
    """Samples per second over the last minute, or since the start if that is shorter.

    The stream's thread adds while those that answer requests ask.

    >>> rate = RecentRate(now=0.0)
    >>> rate.add(30, now=5.0); rate.add(30, now=10.0)
    >>> rate.per_second(now=10.0), rate.per_second(now=66.0), rate.per_second(now=99.0)
    (6.0, 0.5, 0.0)
    """

    def __init__(self, now: float) -> None:
        self._start = now
        self._recent: deque[tuple[float, int]] = deque()
        self._lock = threading.Lock()

    def add(self, count: int, now: float) -> None:
        """So many have come now."""
        with self._lock:
            self._recent.append((now, count))
            self._forget(now)

    def per_second(self, now: float) -> float:
        """The rate at this moment."""
        with self._lock:
            self._forget(now)
            total = sum(count for _, count in self._recent)
        elapsed = min(_SECONDS, now - self._start)
        return total / elapsed if elapsed > 0 else 0.0

    def _forget(self, now: float) -> None:
        while self._recent and self._recent[0][0] <= now - _SECONDS:
            self._recent.popleft()
