"""Which samples have come before, by the ids that their senders gave them.

A sender that does not know whether a message got through sends it again, and to the broker that is
another message. Only the sender's own name for a sample tells that it is the same one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from hashlib import blake2b

from headwater.devices.memory.database import Database


class SeenIds:
    """The newest ``limit`` ids, in the node's database."""

    def __init__(self, database: Database, limit: int) -> None:
        self._database, self._limit = database, limit
        with database.transaction() as connection:
            # without AUTOINCREMENT an ignored row uses up no number, so numbers have no gaps, and
            # those of the newest are known from the greatest
            connection.execute(
                "CREATE TABLE IF NOT EXISTS seen_id (number INTEGER PRIMARY KEY, "
                "digest INTEGER NOT NULL UNIQUE)"
            )
            _move_from_table_with_gaps(connection)

    def new(self, ids: Sequence[str | None]) -> list[int]:
        """The places of ids that come for the first time; from now on they have come.

        To be called in the transaction of their samples: then both are on disk, or neither is. Who
        has no id is always new.
        """
        digests = [None if id is None else _digest(id) for id in ids]
        with self._database.transaction() as connection:
            rows = connection.execute(
                "INSERT OR IGNORE INTO seen_id (digest) SELECT value FROM json_each(?) "
                "WHERE value IS NOT NULL RETURNING digest",
                (json.dumps(digests),),
            ).fetchall()
            connection.execute(
                "DELETE FROM seen_id WHERE number <= (SELECT MAX(number) FROM seen_id) - ?",
                (self._limit,),
            )
        first = {digest for (digest,) in rows}
        return [place for place, digest in enumerate(digests) if _take(first, digest)]


def _move_from_table_with_gaps(connection: sqlite3.Connection) -> None:
    """Files that were begun with numbers by AUTOINCREMENT keep their ids."""
    query = "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'seen'"
    if connection.execute(query).fetchone()[0]:
        connection.execute(
            "INSERT OR IGNORE INTO seen_id (digest) SELECT digest FROM seen ORDER BY number"
        )
        connection.execute("DROP TABLE seen")


def _take(first: set[int], digest: int | None) -> bool:
    """Is it new? Only once, so that the second of two in one batch is not."""
    if digest is None:
        return True
    if digest in first:
        first.remove(digest)
        return True
    return False


def _digest(id: str) -> int:
    """64 bits, whatever the text: a number is quick to compare and always of one size."""
    return int.from_bytes(blake2b(id.encode(), digest_size=8).digest(), "little", signed=True)
