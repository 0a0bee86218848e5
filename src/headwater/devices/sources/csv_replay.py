"""A recorded CSV file as a live stream: so many rows per second, or as its times say."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

from headwater.devices.intake.mapping import Record
from headwater.devices.memory.state import State
from headwater.devices.settings.sources import CsvSettings
from headwater.devices.sources.recording import csv_rows
from headwater.devices.sources.source import Delivery
from headwater.errors import InputError

_MARK = "csv rows"


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
        first = state.number(_MARK)
        start = self._clock()
        due_rows: list[Record] = []
        done = first
        for row, seconds in self._timed(first):
            late = self._clock() - start - seconds
            if due_rows and (late < 0 or len(due_rows) >= self._batch):
                done += len(due_rows)
                yield Delivery(due_rows, partial(state.set, _MARK, done))
                due_rows = []
            if late < 0 and stop.wait(-late):
                return
            if stop.is_set():
                return
            due_rows.append(row)
        if due_rows:
            yield Delivery(due_rows, partial(state.set, _MARK, done + len(due_rows)))

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
