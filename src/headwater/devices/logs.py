"""What a node tells: text for people or JSON for machines, and never too much of the same."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from headwater.devices.settings import LogSettings

_STANDARD = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the record's own fields.

    >>> record = logging.makeLogRecord({"msg": "ready", "levelname": "INFO", "client": "a"})
    >>> json.loads(JsonFormatter().format(record))["client"]
    'a'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        moment = datetime.fromtimestamp(record.created, UTC)
        content = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return json.dumps(content, default=str)


class TextFormatter(logging.Formatter):
    """Time, level, message, and the record's own fields as name=value."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields = "".join(f"  {name}={value}" for name, value in _fields(record).items())
        return super().format(record) + fields


class Sparingly:
    """Tell of something that may happen a thousand times a second: now and then, with a count.

    >>> now = [0.0]
    >>> few = Sparingly(logging.getLogger("example"), clock=lambda: now[0])
    >>> [few.due("bad message", 1) for _ in range(5)]
    [1, 0, 0, 0, 0]
    >>> now[0] = 11.0
    >>> few.due("bad message", 1)
    5
    """

    def __init__(
        self,
        logger: logging.Logger,
        seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger, self._seconds, self._clock = logger, seconds, clock
        self._last: dict[str, float] = {}
        self._silent: dict[str, int] = {}

    def warning(self, message: str, count: int, **fields: object) -> None:
        """Perhaps log a warning, with the number of cases since the last one."""
        due = self.due(message, count)
        if due:
            self._logger.warning(message, extra={"count": due, **fields})

    def due(self, message: str, count: int) -> int:
        """How many cases to tell of now; 0: be silent."""
        now = self._clock()
        total = self._silent.get(message, 0) + count
        if now - self._last.get(message, -self._seconds) < self._seconds:
            self._silent[message] = total
            return 0
        self._last[message], self._silent[message] = now, 0
        return total


def start_logging(settings: LogSettings) -> None:
    """Send the package's log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    text = TextFormatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S")
    handler.setFormatter(JsonFormatter() if settings.format == "json" else text)
    logger = logging.getLogger("headwater")
    logger.handlers[:] = [handler]
    logger.setLevel(settings.level.upper())
    logger.propagate = False


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}
