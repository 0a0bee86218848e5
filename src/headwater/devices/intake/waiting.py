"""Samples that wait for their labels, outside the memory.

A sample without a label cannot be learned from, so it has no arrival number and takes no slot of
the memory until its label comes, in a message of its own with the same id. How many may wait is
limited: when one more comes, the one that has waited longest is given up. A label whose sample is
not waiting (never came, given up, or comes after its label) is a dead letter.
"""

from __future__ import annotations

import numpy as np

from headwater.devices.intake.mapping import Rows
from headwater.devices.memory.database import Database


class WaitingSamples:
    """Features by id, the newest ``limit`` of them."""

    def __init__(self, database: Database, shape: tuple[int, ...], limit: int) -> None:
        self._database, self._shape, self._limit = database, shape, limit
        with database.transaction() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS waiting (number INTEGER PRIMARY KEY AUTOINCREMENT, "
                "id TEXT NOT NULL UNIQUE, time REAL, x BLOB NOT NULL)"
            )

    def __len__(self) -> int:
        return int(self._database.rows("SELECT COUNT(*) FROM waiting")[0][0])

    def add(self, rows: Rows) -> int:
        """Let samples wait; how many others were given up for them."""
        assert rows.x is not None, "a sample that waits has features"
        stored = [
            (id, time, row.tobytes())
            for id, time, row in zip(rows.ids, rows.times, rows.x, strict=True)
        ]
        with self._database.transaction() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO waiting (id, time, x) VALUES (?, ?, ?)", stored
            )
            given_up = max(0, len(self) - self._limit)
            connection.execute(
                "DELETE FROM waiting WHERE number IN "
                "(SELECT number FROM waiting ORDER BY number LIMIT ?)",
                (given_up,),
            )
        return given_up

    def join(self, label: Rows) -> Rows | None:
        """The sample whose label has come, whole; None: nobody waits for it."""
        with self._database.transaction() as connection:
            found = connection.execute(
                "DELETE FROM waiting WHERE id = ? RETURNING x, time", (label.ids[0],)
            ).fetchone()
        if found is None:
            return None
        x = np.frombuffer(found[0], np.float64).reshape(1, *self._shape)
        return Rows(x, label.y, label.ids, [found[1]])
