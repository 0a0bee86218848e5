"""Which samples have come before, by the ids that their senders gave them.

A sender that does not know whether a message got through sends it again, and to the broker that is
another message. Only the sender's own name for a sample tells that it is the same one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b

from headwater.devices.memory.database import Database


class SeenIds:
    """The newest ``limit`` ids, in the node's database."""

    def __init__(self, database: Database, limit: int) -> None:
        self._database, self._limit = database, limit
        with database.transaction() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS seen (number INTEGER PRIMARY KEY AUTOINCREMENT, "
                "digest INTEGER NOT NULL UNIQUE)"
            )

    def new(self, ids: Sequence[str | None]) -> list[int]:
        """The places of ids that come for the first time; from now on they have come.

        To be called in the transaction of their samples: then both are on disk, or neither is. Who
        has no id is always new.
        """
        digests = [None if id is None else _digest(id) for id in ids]
        with self._database.transaction() as connection:
            rows = connection.execute(
                "INSERT OR IGNORE INTO seen (digest) SELECT value FROM json_each(?) "
                "WHERE value IS NOT NULL RETURNING digest",
                (json.dumps(digests),),
            ).fetchall()
            connection.execute(
                "DELETE FROM seen WHERE number <= (SELECT MAX(number) FROM seen) - ?",
                (self._limit,),
            )
        first = {digest for (digest,) in rows}
        return [place for place, digest in enumerate(digests) if _take(first, digest)]


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
