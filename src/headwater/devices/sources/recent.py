"""Which messages have come before.

A broker repeats what it thinks was not received. It marks the message as a duplicate and gives it
its old packet number; whether it is on disk already, on the way there, or really new is known here.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from hashlib import blake2b

from headwater.devices.memory.database import Database

_LEAST = 10_000  # messages remembered; a broker has a few hundred unacknowledged at worst


class RecentMessages:
    """The last messages that are safe, on disk; and those on the way there, in RAM.

    One thread receives and asks, another writes to disk and tells.
    """

    def __init__(self, in_flight: int) -> None:
        # more than may be in flight: mosquitto exceeds its own limit after lost connections
        self._limit = max(_LEAST, 10 * in_flight)
        self._lock = threading.Lock()
        self._pending: set[int] = set()
        self._safe: dict[int, None] = {}  # a set that keeps its order

    def load(self, database: Database) -> None:
        """Those that were safe when the process ended."""
        with database.transaction() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS recent_message "
                "(number INTEGER PRIMARY KEY AUTOINCREMENT, digest INTEGER NOT NULL)"
            )
        rows = database.rows("SELECT digest FROM recent_message ORDER BY number")
        self._safe = dict.fromkeys(row[0] for row in rows)

    def is_new(self, digest: int, duplicate: bool) -> bool:
        """Take note of a message; False: it has come before."""
        with self._lock:
            if duplicate and (digest in self._safe or digest in self._pending):
                return False
            self._pending.add(digest)
            return True

    def is_safe(self, digest: int) -> bool:
        """Is this message on disk?"""
        with self._lock:
            return digest in self._safe

    def forget(self, digest: int) -> None:
        """It did not get on its way after all."""
        with self._lock:
            self._pending.discard(digest)

    def write(self, database: Database, digests: Sequence[int]) -> None:
        """Remember these on disk, in the transaction of their samples."""
        with database.transaction() as connection:
            connection.execute(
                "INSERT INTO recent_message (digest) SELECT value FROM json_each(?)",
                (json.dumps(digests),),
            )
            connection.execute(
                "DELETE FROM recent_message WHERE number <= "
                "(SELECT MAX(number) FROM recent_message) - ?",
                (self._limit,),
            )

    def settle(self, digests: Sequence[int]) -> None:
        """These are safe now."""
        with self._lock:
            for digest in digests:
                self._pending.discard(digest)
                self._safe.pop(digest, None)
                self._safe[digest] = None
            while len(self._safe) > self._limit:
                del self._safe[next(iter(self._safe))]


def digest_of(number: int, topic: str, payload: bytes) -> int:
    """A message's identity: its packet number and content, as a 64-bit integer."""
    identity = b"%d %s %s" % (number, topic.encode(errors="replace"), payload)
    return int.from_bytes(blake2b(identity, digest_size=8).digest(), "little", signed=True)
