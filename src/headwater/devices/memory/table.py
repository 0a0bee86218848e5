"""The table of samples: a batch is written by one statement, not by one per sample.

SQLite gets all features of a batch as one blob and all labels as another, and cuts them itself; the
slots come as a JSON array that it walks through. No Python object is made for a sample, which takes
less than a third of the time of ``executemany``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.devices.memory.database import Database
from headwater.ledger.memory import REJECTED

Positions = NDArray[np.int64]
_BYTES = 1 << 24  # of features that go into one statement; SQLite refuses blobs of 1e9 and more
_WRITE = f"""
INSERT OR REPLACE INTO sample
SELECT value, :first + key, {{id}}, {{time}}, :round,
       substr(:x, 1 + key * :x_bytes, :x_bytes), substr(:y, 1 + key * :y_bytes, :y_bytes)
FROM json_each(:slots) WHERE value <> {REJECTED}
"""


@dataclass(frozen=True)
class Batch:
    """Samples that arrive together.

    Attributes:
        x, y: features and labels, one row per sample, as the schema stores them.
        ids: the senders' names for the samples; None: they have none.
        times: seconds since 1970; None: now.
    """

    x: NDArray[Any]
    y: NDArray[Any]
    ids: Sequence[str | None] | None = None
    times: Sequence[float | None] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def part(self, where: slice) -> Batch:
        """Some of the samples."""
        ids = None if self.ids is None else self.ids[where]
        times = None if self.times is None else self.times[where]
        return Batch(self.x[where], self.y[where], ids, times)

    def at(self, places: Sequence[int]) -> Batch:
        """The samples at these places."""
        ids = None if self.ids is None else [self.ids[k] for k in places]
        times = None if self.times is None else [self.times[k] for k in places]
        return Batch(self.x[places], self.y[places], ids, times)


class SampleTable:
    """One row per slot of a memory.

    Args:
        database: the file.
        capacity: how many slots there are, and the table refuses others; None: no limit.
    """

    def __init__(self, database: Database, capacity: int | None) -> None:
        self._database = database
        allowed = "" if capacity is None else f" CHECK (slot BETWEEN 0 AND {int(capacity) - 1})"
        with database.transaction() as connection:
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS sample (slot INTEGER PRIMARY KEY{allowed}, "
                "position INTEGER NOT NULL, id TEXT, time REAL NOT NULL, round INTEGER, "
                "x BLOB NOT NULL, y BLOB NOT NULL)"
            )

    def write(
        self, batch: Batch, slots: Positions, first: int, now: float, round: int | None
    ) -> None:
        """Put samples into their slots, in one transaction.

        Args:
            batch: contiguous arrays, as they are stored.
            slots: of each sample, no slot twice; ``REJECTED``: it is left out.
            first: the arrival number of the first sample.
            now: the time of samples that have none.
            round: the first round that may use them, for the record.
        """
        together = max(1, _BYTES // batch.x[0].nbytes)
        with self._database.transaction():
            for start in range(0, len(batch), together):
                where = slice(start, start + together)
                self._write(batch.part(where), slots[where], first + start, now, round)

    def _write(
        self, batch: Batch, slots: Positions, first: int, now: float, round: int | None
    ) -> None:
        identity, moment = "NULL", ":now"
        with self._database.transaction() as connection:
            # The few that have names or times of their own: SQLite asks for them one by one.
            if batch.ids is not None:
                connection.create_function("id_of", 1, batch.ids.__getitem__)
                identity = "id_of(key)"
            if batch.times is not None:
                connection.create_function("time_of", 1, batch.times.__getitem__)
                moment = "ifnull(time_of(key), :now)"
            values = {
                "first": first,
                "now": now,
                "round": round,
                "slots": json.dumps(slots.tolist()),
                "x": batch.x.tobytes(),
                "x_bytes": batch.x[0].nbytes,
                "y": batch.y.tobytes(),
                "y_bytes": batch.y.itemsize,
            }
            connection.execute(_WRITE.format(id=identity, time=moment), values)

    def read(self) -> tuple[Positions, list[bytes], list[bytes]]:
        """Arrival numbers, features and labels of all samples, in order of arrival."""
        rows = self._database.rows("SELECT position, x, y FROM sample ORDER BY position")
        positions = np.array([row[0] for row in rows], np.int64)
        return positions, [row[1] for row in rows], [row[2] for row in rows]

    def filled(self, slots: Positions) -> int:
        """How many of these slots have a sample."""
        query = "SELECT COUNT(*) FROM sample WHERE slot IN (SELECT value FROM json_each(?))"
        return int(self._database.rows(query, json.dumps(slots.tolist()))[0][0])
