"""A client's bounded memory on disk, by the same rules as in the simulator.

A rule maps arrivals to slots (:mod:`headwater.ledger.memory`); here a slot is a row of a table. An
arriving sample replaces whoever is in its slot, so the capacity cannot be exceeded: there are no
more slots, and the table refuses others. Draws depend on (seed, client, arrival number) only, so a
replayed stream leaves exactly the samples that the simulator's ledger says.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.devices.memory.database import Database
from headwater.devices.memory.schema import Schema
from headwater.devices.memory.state import State
from headwater.errors import InputError
from headwater.ledger.memory import REJECTED, Memory
from headwater.ledger.samples import Samples


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

    def _last_in_slot(self, first: int, count: int) -> tuple[list[int], list[int]]:
        """Which of the arriving samples are kept to the end of the batch, and in which slots."""
        positions = np.arange(first, first + count)
        if self.rule.capacity is None:
            return list(range(count)), positions.tolist()
        clients = np.full(count, self.client, np.int64)
        slots = self.rule.slots(Samples(clients, positions, self.seed))
        # the last one in a slot stays: unique keeps the first, so look from the end
        kept, from_end = np.unique(slots[::-1], return_index=True)
        chosen = count - 1 - from_end
        there = kept != REJECTED
        return chosen[there].tolist(), kept[there].tolist()

    def _new_slots(self, slots: list[int]) -> int:
        """How many of these slots are still empty."""
        if self.rule.capacity is None or self.held == self.rule.capacity:
            return len(slots) if self.rule.capacity is None else 0
        query = "SELECT COUNT(*) FROM sample WHERE slot IN (SELECT value FROM json_each(?))"
        return len(slots) - int(self.database.rows(query, json.dumps(slots))[0][0])

    def _rows(
        self, batch: Batch, first: int, chosen: list[int], slots: list[int], round: int | None
    ) -> list[tuple[Any, ...]]:
        x, y = self.schema.arrays(batch.x, batch.y)
        features, labels = memoryview(x.tobytes()), memoryview(y.tobytes())
        width, label = x.nbytes // len(batch), y.itemsize
        now = time.time()
        return [
            (
                slot,
                first + k,
                batch.ids[k] if batch.ids else None,
                (batch.times[k] if batch.times else None) or now,
                round,
                features[k * width : (k + 1) * width],
                labels[k * label : (k + 1) * label],
            )
            for k, slot in zip(chosen, slots, strict=True)
        ]

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


def _table(capacity: int | None) -> str:
    """The table refuses a slot that the rule does not have."""
    allowed = "" if capacity is None else f" AND slot < {int(capacity)}"
    return (
        f"CREATE TABLE IF NOT EXISTS sample (slot INTEGER PRIMARY KEY CHECK (slot >= 0{allowed}), "
        "position INTEGER NOT NULL, id TEXT, time REAL NOT NULL, round INTEGER, "
        "x BLOB NOT NULL, y BLOB NOT NULL)"
    )
