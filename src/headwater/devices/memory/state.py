"""Named numbers and texts of a node that survive it: counters, positions, sums."""

from __future__ import annotations

from headwater.devices.memory.database import Database

Value = int | float | str


class State:
    """Values by name, written in the transaction of whatever they belong to.

    Attributes:
        database: where they are.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        with database.transaction() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value) WITHOUT ROWID"
            )

    def get(self, name: str) -> Value | None:
        """The value of a name, or None."""
        rows = self.database.rows("SELECT value FROM state WHERE name = ?", name)
        return rows[0][0] if rows else None

    def number(self, name: str) -> int:
        """A counter's value, 0 before it was first counted."""
        return int(self.get(name) or 0)

    def set(self, name: str, value: Value) -> None:
        """Write a value."""
        with self.database.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (name, value))

    def add(self, name: str, amount: int | float) -> None:
        """Add to a number."""
        if amount:
            with self.database.transaction() as connection:
                connection.execute(
                    "INSERT INTO state VALUES (?1, ?2) "
                    "ON CONFLICT (name) DO UPDATE SET value = value + ?2",
                    (name, amount),
                )
