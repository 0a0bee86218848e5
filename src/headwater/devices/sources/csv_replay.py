"""A recorded CSV file as a live stream: so many rows per second, or as its times say.

How many rows were read is stored with the samples, and with it a check sum of all of them. So a
recording goes on where it was also when it has been moved or has grown, and another one, whatever
its name, is read from its first row.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from zlib import crc32

from headwater.devices.intake.mapping import Record
from headwater.devices.memory.state import State
from headwater.devices.settings.sources import CsvSettings
from headwater.devices.sources.recording import csv_rows
from headwater.devices.sources.source import Delivery
from headwater.errors import InputError

log = logging.getLogger(__name__)

_MARK = "csv read"
_BARE_MARK = "csv rows"  # of files from before there was a check sum: believed


@dataclass(frozen=True)
class _Mark:
    """How many rows were read, and the check sum of their fields."""

    rows: int = 0
    check: int = 0

    @classmethod
    def of(cls, rows: Iterator[Record]) -> _Mark:
        mark = cls()
        for row in rows:
            mark = mark.after(row)
        return mark

    def after(self, row: Record) -> _Mark:
        """One row further."""
        return _Mark(self.rows + 1, crc32(repr(row).encode(), self.check))

    def text(self) -> str:
        return json.dumps([self.rows, self.check])


class CsvReplay:
    """Rows in the file's order, each when it is due; a restart goes on with the next row."""

    def __init__(
        self,
        settings: CsvSettings,
        time_field: str | None,
        batch: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if settings.speed is not None and time_field is None:
            raise InputError("source.speed: replay by recorded times needs samples.time")
        self._settings, self._time_field, self._batch = settings, time_field, batch
        self._clock = clock
        next(csv_rows(settings.path), None)  # a file that is not there is found now

    def deliveries(self, state: State, stop: threading.Event) -> Iterator[Delivery]:
        """Rows as they become due, those that are due together in one delivery."""
        mark = self._beginning(state)
        start = self._clock()
        due_rows: list[Record] = []
        for row, seconds in self._timed(mark.rows):
            late = self._clock() - start - seconds
            if due_rows and (late < 0 or len(due_rows) >= self._batch):
                yield Delivery(due_rows, partial(state.set, _MARK, mark.text()))
                due_rows = []
            if late < 0 and stop.wait(-late):
                return
            if stop.is_set():
                return
            due_rows.append(row)
            mark = mark.after(row)
        if due_rows:
            yield Delivery(due_rows, partial(state.set, _MARK, mark.text()))

    def _beginning(self, state: State) -> _Mark:
        """After the rows that were read, if they are the first ones of this file."""
        known = state.get(_MARK)
        stored = None if known is None else _Mark(*json.loads(str(known)))
        count = state.number(_BARE_MARK) if stored is None else stored.rows
        mark = _Mark.of(islice(csv_rows(self._settings.path), count))
        if stored is None or mark == stored:
            return mark
        log.warning(
            "another recording: it is read from its first row",
            extra={"path": str(self._settings.path), "rows_of_the_other": stored.rows},
        )
        return _Mark()

    def _timed(self, first: int) -> Iterator[tuple[Record, float]]:
        """The rows from ``first`` on, with the seconds after the start at which they are due."""
        rows = csv_rows(self._settings.path, first)
        if self._settings.per_second is not None:
            for number, row in enumerate(rows):
                yield row, number / self._settings.per_second
            return
        speed, origin, now = self._settings.speed or 1.0, None, 0.0
        for row in rows:
            moment = _moment(row.get(self._time_field or ""))
            origin = moment if origin is None else origin
            # a time that is missing or runs backwards does not hold up the stream
            now = now if moment is None or origin is None else max(now, (moment - origin) / speed)
            yield row, now


def _moment(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None
