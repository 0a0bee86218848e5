"""A few of the messages that could not be used, kept to be looked at."""

from __future__ import annotations

import time
from collections.abc import Sequence

from headwater.devices.intake.mapping import Message
from headwater.devices.memory.database import Database

_KEPT = 2048  # bytes of a message: enough to see what it is


class DeadLetters:
    """The newest ``limit`` malformed messages with the reason, in the node's database."""

    def __init__(self, database: Database, limit: int) -> None:
        self._database, self._limit = database, limit
        with database.transaction() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS dead_letter (number INTEGER PRIMARY KEY AUTOINCREMENT, "
                "time REAL NOT NULL, reason TEXT NOT NULL, message BLOB NOT NULL)"
            )

    def add(self, wrong: Sequence[tuple[Message, str]]) -> None:
        """Keep these, and let older ones go."""
        newest = wrong[max(0, len(wrong) - self._limit) :]
        if not newest:
            return
        now = time.time()
        rows = [(now, reason[:500], _bytes(message)) for message, reason in newest]
        with self._database.transaction() as connection:
            connection.executemany(
                "INSERT INTO dead_letter (time, reason, message) VALUES (?, ?, ?)", rows
            )
            connection.execute(
                "DELETE FROM dead_letter WHERE number <= (SELECT MAX(number) FROM dead_letter) - ?",
                (self._limit,),
            )

    def all(self) -> list[tuple[str, bytes]]:
        """Reason and message of each, the oldest first."""
        rows = self._database.rows("SELECT reason, message FROM dead_letter ORDER BY number")
        return [(reason, message) for reason, message in rows]


def _bytes(message: Message) -> bytes:
    if isinstance(message, bytes):
        return message[:_KEPT]
    return repr(message)[:_KEPT].encode(errors="replace")
