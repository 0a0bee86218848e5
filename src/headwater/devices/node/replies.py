"""Answers that are given again instead of worked out again.

A message may come twice: the process that carried it died, or its answer was lost on the way. The
round must not be done twice with different samples, so the last answer of each run is on disk
before it is sent, and the same question gets the same bytes. The last few runs are remembered.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np

from headwater.devices.memory.database import Database
from headwater.devices.wire import Frame

_RUNS = 4  # an answer is as large as the model


class StoredReplies:
    """The last answer of each of the last runs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        with database.transaction() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS reply (number INTEGER PRIMARY KEY AUTOINCREMENT, "
                "run TEXT NOT NULL UNIQUE, round INTEGER NOT NULL, digest TEXT NOT NULL, "
                "header TEXT NOT NULL, dtype TEXT NOT NULL, move BLOB NOT NULL)"
            )

    def last_round(self, run: str) -> int | None:
        """The latest round of a run that was answered."""
        rows = self._database.rows("SELECT round FROM reply WHERE run = ?", run)
        return int(rows[0][0]) if rows else None

    def find(self, run: str, digest: str) -> Frame | None:
        """The answer to this very question, if it was the last one."""
        rows = self._database.rows(
            "SELECT header, dtype, move FROM reply WHERE run = ? AND digest = ?", run, digest
        )
        if not rows:
            return None
        header, dtype, move = rows[0]
        return Frame(json.loads(header), {"move": np.frombuffer(move, dtype)})

    def store(self, run: str, round: int, digest: str, reply: Frame) -> None:
        """Keep an answer, instead of the run's one before."""
        move = reply.arrays["move"]
        row = (run, round, digest, json.dumps(dict(reply.header)), move.dtype.str, move.tobytes())
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO reply (run, round, digest, header, dtype, move) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                row,
            )
            connection.execute(
                "DELETE FROM reply WHERE number NOT IN "
                "(SELECT number FROM reply ORDER BY number DESC LIMIT ?)",
                (_RUNS,),
            )


def digest_of(question: Frame) -> str:
    """What makes a question the same question: everything in it."""
    digest = hashlib.sha256(json.dumps(dict(question.header), sort_keys=True).encode())
    for name, array in sorted(question.arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
