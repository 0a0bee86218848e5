"""A client's bounded memory on disk, by the same rules as in the simulator.

A rule maps arrivals to slots (:mod:`headwater.ledger.memory`); here a slot is a row of a table. An
arriving sample replaces whoever is in its slot, so the capacity cannot be exceeded: there are no
more slots, and the table refuses others. Draws depend on (seed, client, arrival number) only, so a
replayed stream leaves exactly the samples that the simulator's ledger says.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.devices.memory.database import Database
from headwater.devices.memory.schema import Schema
from headwater.devices.memory.state import State
from headwater.errors import InputError
from headwater.ledger.memory import REJECTED, Memory
from headwater.ledger.samples import Samples

Positions = NDArray[np.int64]


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


@dataclass(frozen=True)
class Snapshot:
    """What a memory holds at one moment, in order of arrival."""

    positions: NDArray[np.int64]
    x: NDArray[Any]
    y: NDArray[Any]


class DurableMemory:
    """A memory in a file.

    Args:
        database: the file.
        rule: ``Keep()``, ``Fifo(capacity)``, ``Reservoir(capacity)`` or one of your own.
        schema: what a sample looks like.
        client: the client's number m, for the rule's draws.
        seed: of the rule's draws.

    >>> import tempfile; from pathlib import Path; from headwater import Fifo
    >>> database = Database(Path(tempfile.mkdtemp()) / "memory.db")
    >>> memory = DurableMemory(database, Fifo(2), Schema.classes((1,), 2))
    >>> memory.take_in(Batch(np.array([[0.1], [0.2], [0.3]]), np.array([0, 1, 0])))
    >>> memory.arrived, memory.held, memory.snapshot().positions
    (3, 2, array([1, 2]))
    """

    def __init__(
        self, database: Database, rule: Memory, schema: Schema, client: int = 0, seed: int = 0
    ) -> None:
        self.database, self.rule, self.schema = database, rule, schema
        self.client, self.seed = client, seed
        self.state = State(database)
        self._latest: tuple[int, Snapshot] | None = None
        with database.transaction() as connection:
            connection.execute(_table(rule.capacity))
            self._check_origin()

    @property
    def arrived(self) -> int:
        """N_m: how many samples have come in so far."""
        return self.state.number("arrived")

    @property
    def held(self) -> int:
        """How many samples are in memory."""
        return self.state.number("held")

    def take_in(self, batch: Batch, round: int | None = None) -> None:
        """Let samples arrive, in one transaction.

        Args:
            batch: samples that fit the schema.
            round: the first round that may use them, for the record.
        """
        if not len(batch):
            return
        with self.database.transaction() as connection:
            first = self.arrived
            chosen, slots = self._last_in_slot(first, len(batch))
            self.state.add("held", self._new_slots(slots))
            rows = self._rows(batch, first, chosen, slots, round)
            connection.executemany("INSERT OR REPLACE INTO sample VALUES (?,?,?,?,?,?,?)", rows)
            self.state.set("arrived", first + len(batch))

    def snapshot(self) -> Snapshot:
        """All samples held, in order of arrival; nothing is read while nothing arrives."""
        with self.database.transaction():  # nothing arrives between the count and the rows
            arrived = self.arrived
            if self._latest is None or self._latest[0] != arrived:
                self._latest = arrived, self._read()
            return self._latest[1]

    def _read(self) -> Snapshot:
        rows = self.database.rows("SELECT position, x, y FROM sample ORDER BY position")
        positions = np.array([row[0] for row in rows], np.int64)
        x, y = self.schema.read([row[1] for row in rows], [row[2] for row in rows])
        return Snapshot(positions, x, y)

    def _last_in_slot(self, first: int, count: int) -> tuple[Positions, Positions]:
        """Which of the arriving samples are kept to the end of the batch, and in which slots."""
        positions = np.arange(first, first + count)
        if self.rule.capacity is None:
            return np.arange(count), positions
        clients = np.full(count, self.client, np.int64)
        slots = self.rule.slots(Samples(clients, positions, self.seed))
        # the last one in a slot stays: unique keeps the first, so look from the end
        kept, from_end = np.unique(slots[::-1], return_index=True)
        chosen = count - 1 - from_end
        there = kept != REJECTED
        return chosen[there], kept[there]

    def _new_slots(self, slots: Positions) -> int:
        """How many of these slots are still empty."""
        if self.rule.capacity is None or self.held == self.rule.capacity:
            return len(slots) if self.rule.capacity is None else 0
        query = "SELECT COUNT(*) FROM sample WHERE slot IN (SELECT value FROM json_each(?))"
        return len(slots) - int(self.database.rows(query, json.dumps(slots.tolist()))[0][0])

    def _rows(
        self, batch: Batch, first: int, chosen: Positions, slots: Positions, round: int | None
    ) -> Iterable[tuple[Any, ...]]:
        """What the table gets: columns that are put together row by row as SQLite takes them."""
        x, y = self.schema.arrays(batch.x, batch.y)
        now = time.time()
        places = chosen.tolist()
        ids = repeat(None) if batch.ids is None else map(batch.ids.__getitem__, places)
        times = repeat(now) if batch.times is None else [batch.times[k] or now for k in places]
        return zip(
            slots.tolist(),
            (first + chosen).tolist(),
            ids,
            times,
            repeat(round),
            _blobs(x[chosen]),
            _blobs(y[chosen]),
            strict=False,  # what is repeated has no end
        )

    def _check_origin(self) -> None:
        """A file goes on with the rule, the schema and the draws that it began with."""
        origin = {"rule": repr(self.rule), "client": self.client, "seed": self.seed}
        known = self.state.get("origin")
        if known is None:
            self.state.set("origin", json.dumps(origin))
            self.state.set("schema", self.schema.to_json())
            return
        for name, value in json.loads(str(known)).items():
            if value != origin[name]:
                raise InputError(
                    f"{self.database.path}: it was begun with {name} = {value}, the settings say "
                    f"{origin[name]}; put the setting back, or name another memory file"
                )
        stored = Schema.from_json(str(self.state.get("schema")))
        self.schema.check_same(stored, str(self.database.path))


def _blobs(rows: NDArray[Any]) -> list[bytes]:
    """The bytes of each row. One copy each, made by NumPy: no view of a view per sample.

    >>> _blobs(np.array([[1, 2], [3, 0]], np.uint8))
    [b'\\x01\\x02', b'\\x03\\x00']
    """
    width = math.prod(rows.shape[1:])
    return rows.reshape(len(rows), width).view(f"V{width * rows.itemsize}").ravel().tolist()


def _table(capacity: int | None) -> str:
    """The table refuses a slot that the rule does not have; to keep all has a slot for each."""
    allowed = "" if capacity is None else f" CHECK (slot BETWEEN 0 AND {int(capacity) - 1})"
    return (
        f"CREATE TABLE IF NOT EXISTS sample (slot INTEGER PRIMARY KEY{allowed}, "
        "position INTEGER NOT NULL, id TEXT, time REAL NOT NULL, round INTEGER, "
        "x BLOB NOT NULL, y BLOB NOT NULL)"
    )
