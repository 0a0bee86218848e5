"""Named numbers and texts of a node that survive it: counters, positions, sums."""

from __future__ import annotations

import sqlite3

from headwater.devices.memory.database import Database

Value = int | float | str


class State:
    """Values by name, written in the transaction of whatever they belong to.

    A batch of arrivals touches a dozen of them, some twice. So they are known in RAM, and those
    that changed are written together at the end of their transaction; one that is rolled back
    leaves nothing here either. One state per file: nobody else writes these rows.

    Attributes:
        database: where they are.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._known: dict[str, Value | None] = {}
        self._changed: set[str] = set()
        with database.transaction() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value) WITHOUT ROWID"
            )
        database.join(self)

    def get(self, name: str) -> Value | None:
        """The value of a name, or None."""
        with self.database.settled():  # another thread's values count when they are committed
            if name not in self._known:
                rows = self.database.rows("SELECT value FROM state WHERE name = ?", name)
                self._known[name] = rows[0][0] if rows else None
            return self._known[name]

    def number(self, name: str) -> int:
        """A counter's value, 0 before it was first counted."""
        return int(self.get(name) or 0)

    def set(self, name: str, value: Value) -> None:
        """Write a value."""
        with self.database.transaction():
            self._known[name] = value
            self._changed.add(name)

    def add(self, name: str, amount: int | float) -> None:
        """Add to a number."""
        if amount:
            with self.database.transaction():
                before = self.get(name) or 0
                assert not isinstance(before, str), f"{name} is a text, not a number"
                self.set(name, before + amount)

    def before_commit(self, connection: sqlite3.Connection) -> None:
        """Write what has changed; called by the database."""
        if self._changed:
            rows = [(name, self._known[name]) for name in self._changed]
            connection.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", rows)
            self._changed.clear()

    def rolled_back(self) -> None:
        """What was known may not be on disk; called by the database."""
        self._known.clear()
        self._changed.clear()
