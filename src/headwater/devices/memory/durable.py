"""A client's bounded memory on disk, by the same rules as in the simulator.

A rule maps arrivals to slots (:mod:`headwater.ledger.memory`); here a slot is a row of a table. An
arriving sample replaces whoever is in its slot, so the capacity cannot be exceeded: there are no
more slots, and the table refuses others. Draws depend on (seed, client, arrival number) only, so a
replayed stream leaves exactly the samples that the simulator's ledger says.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.devices.memory.database import Database
from headwater.devices.memory.schema import Schema
from headwater.devices.memory.state import State
from headwater.devices.memory.table import Batch, Positions, SampleTable
from headwater.errors import InputError
from headwater.ledger.memory import REJECTED, Memory
from headwater.ledger.samples import Samples


@dataclass(frozen=True)
class Snapshot:
    """What a memory holds at one moment, in order of arrival."""

    positions: Positions
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
        meaning: what the numbers of a sample stand for, by setting; None: nobody says.

    >>> import tempfile; from pathlib import Path; from headwater import Fifo
    >>> database = Database(Path(tempfile.mkdtemp()) / "memory.db")
    >>> memory = DurableMemory(database, Fifo(2), Schema.classes((1,), 2))
    >>> memory.take_in(Batch(np.array([[0.1], [0.2], [0.3]]), np.array([0, 1, 0])))
    >>> memory.arrived, memory.held, memory.snapshot().positions
    (3, 2, array([1, 2]))
    """

    def __init__(
        self,
        database: Database,
        rule: Memory,
        schema: Schema,
        client: int = 0,
        seed: int = 0,
        meaning: Mapping[str, Any] | None = None,
    ) -> None:
        self.database, self.rule, self.schema = database, rule, schema
        self.client, self.seed = client, seed
        self.state = State(database)
        self._latest: tuple[int, Snapshot] | None = None
        with database.transaction():
            self._table = SampleTable(database, rule.capacity)
            self._check_origin()
            if meaning is not None:
                self._check_meaning(meaning)

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
        with self.database.transaction():
            first = self.arrived
            slots = self._slots(first, len(batch))
            self.state.add("held", self._new_slots(slots[slots != REJECTED]))
            x, y = self.schema.arrays(batch.x, batch.y)
            stored = Batch(x, y, batch.ids, batch.times)
            self._table.write(stored, slots, first, time.time(), round)
            self.state.set("arrived", first + len(batch))

    def snapshot(self) -> Snapshot:
        """All samples held, in order of arrival; nothing is read while nothing arrives."""
        with self.database.transaction():  # nothing arrives between the count and the rows
            arrived = self.arrived
            if self._latest is None or self._latest[0] != arrived:
                positions, x, y = self._table.read()
                self._latest = arrived, Snapshot(positions, *self.schema.read(x, y))
            return self._latest[1]

    def _slots(self, first: int, count: int) -> Positions:
        """The slot of each arriving sample; ``REJECTED``: it does not last until the batch ends."""
        positions = np.arange(first, first + count)
        if self.rule.capacity is None:
            return positions
        clients = np.full(count, self.client, np.int64)
        slots = self.rule.slots(Samples(clients, positions, self.seed))
        # the last one in a slot stays: unique keeps the first, so look from the end
        _, from_end = np.unique(slots[::-1], return_index=True)
        stays = np.zeros(count, bool)
        stays[count - 1 - from_end] = True
        return np.where(stays, slots, REJECTED)

    def _new_slots(self, slots: Positions) -> int:
        """How many of these slots are still empty."""
        if self.rule.capacity is None:
            return len(slots)
        full = self.held == self.rule.capacity
        return 0 if full else len(slots) - self._table.filled(slots)

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

    def _check_meaning(self, meaning: Mapping[str, Any]) -> None:
        """Numbers of the same form may still be other quantities; a file of before is believed."""
        known = self.state.get("meaning")
        if known is None:
            self.state.set("meaning", json.dumps(meaning))
            return
        stored = json.loads(str(known))
        for name, value in meaning.items():
            if stored[name] != value:
                raise InputError(
                    f"{self.database.path}: its samples have {name} = {json.dumps(stored[name])}, "
                    f"the settings say {json.dumps(value)}; put [samples] back, or name another "
                    "folder, where a new memory begins"
                )
