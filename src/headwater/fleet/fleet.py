"""Clients as a planner sees them: how many samples, how fast they come, how many can be kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.ledger.arrivals import Arrivals, Constant, Once
from headwater.ledger.holdings import Counts
from headwater.ledger.memory import Fifo, Keep, Memory
from headwater.randomness import Floats

Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]
"""Numbers of rows of a fleet."""

Column = Literal["samples", "rate", "capacity", "count"]

LARGEST = 10**15
"""More than any fleet has, and few enough that float64 counts them one by one."""


@dataclass(frozen=True)
class Device:
    """One row of a fleet: a client, or several that are alike.

    Attributes:
        name: of the client, or of all of them.
        samples: N_m, how many samples each has or will see.
        fresh: whether they come as a stream.
        rate: b_m, samples per round; 0 for a historical client.
        capacity: C_m, samples that it can keep; 0 for a historical client, which keeps all.
        count: how many such clients there are.
        kind: what rows of the same kind have in common, for changes that concern them all.
    """

    name: str
    samples: int
    fresh: bool
    rate: float = 0.0
    capacity: int = 0
    count: int = 1
    kind: str = ""


@dataclass(frozen=True)
class Fleet:
    """All clients, a row for each kind of client; attributes as in :class:`Device`, as columns.

    >>> sensor = Device("sensor", 800, True, 8, 16, count=1000)
    >>> fleet = Fleet.of([Device("server", 5000, False), sensor])
    >>> fleet.clients, fleet.rows("sensor")
    (1001, array([1]))
    """

    names: Sequence[str]
    samples: Counts
    fresh: Flags
    rate: Floats
    capacity: Counts
    count: Counts
    kinds: Sequence[str]

    @classmethod
    def of(cls, devices: Iterable[Device]) -> Fleet:
        """Stack rows."""
        rows = list(devices)
        return cls(
            names=[row.name for row in rows],
            samples=np.array([row.samples for row in rows], np.int64),
            fresh=np.array([row.fresh for row in rows], np.bool_),
            rate=np.array([row.rate for row in rows], np.float64),
            capacity=np.array([row.capacity for row in rows], np.int64),
            count=np.array([row.count for row in rows], np.int64),
            kinds=[row.kind for row in rows],
        )

    @classmethod
    def of_clients(
        cls, samples: Counts, arrivals: Sequence[Arrivals], memory: Sequence[Memory]
    ) -> Fleet:
        """The fleet of clients that are historical, or have a constant rate and keep the newest."""
        parts = zip(samples.tolist(), arrivals, memory, strict=True)
        return cls.of(_device(str(m), *part) for m, part in enumerate(parts))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def clients(self) -> int:
        """M, the number of clients."""
        return sum(self.count.tolist())  # whole numbers of Python, which do not overflow

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.names)}

    @cached_property
    def _rows_of_kind(self) -> dict[str, Rows]:
        """The rows of each kind."""
        found: dict[str, list[int]] = {}
        for row, kind in enumerate(self.kinds):
            if kind:
                found.setdefault(kind, []).append(row)
        return {kind: np.array(rows) for kind, rows in found.items()}

    def rows(self, name: str) -> Rows:
        """The row of a client, or all rows of a kind.

        >>> cameras = [Device(f"cam{k}", 80, True, 1, 1, kind="camera") for k in range(3)]
        >>> Fleet.of([Device("server", 500, False), *cameras]).rows("camera")
        array([1, 2, 3])
        """
        row, kind = self._row_of.get(name), self._rows_of_kind.get(name)
        if row is not None and kind is not None and kind.tolist() != [row]:
            raise InputError(
                f"{name!r} is the name of a client and of a kind of {len(kind)}; rename one of them"
            )
        if row is not None:
            return np.array([row])
        if kind is None:
            raise InputError(
                f"there is no client {name!r} in this fleet; there are: {self._some()}"
            )
        return kind

    def _some(self) -> str:
        """A few names that there are."""
        names = ", ".join(list(self.names)[:5]) + (", …" if len(self) > 5 else "")
        kinds = list(self._rows_of_kind)
        if not kinds:
            return names
        return f"{names}; kinds: {', '.join(kinds[:5])}{', …' if len(kinds) > 5 else ''}"

    def groups(self, rows: Rows) -> list[Rows]:
        """These rows by kind; a row without a kind is a group of its own."""
        kinds: dict[str, list[int]] = {}
        for row in rows.tolist():
            kinds.setdefault(self.kinds[row] or f"\0{row}", []).append(row)
        return [np.array(group) for group in kinds.values()]

    def without(self, rows: Rows) -> Fleet:
        """The fleet when the clients of these rows have left."""
        stays = np.ones(len(self), np.bool_)
        stays[rows] = False
        if not stays.any():
            gone = self.names[int(rows[0])]
            raise InputError(f"without {gone!r} nobody would be left to learn from")
        return Fleet(
            names=[name for name, keep in zip(self.names, stays, strict=True) if keep],
            samples=self.samples[stays],
            fresh=self.fresh[stays],
            rate=self.rate[stays],
            capacity=self.capacity[stays],
            count=self.count[stays],
            kinds=[kind for kind, keep in zip(self.kinds, stays, strict=True) if keep],
        )

    def column(self, name: Column) -> Floats:
        """A column of numbers, as a copy that can be changed."""
        columns = {
            "samples": self.samples,
            "rate": self.rate,
            "capacity": self.capacity,
            "count": self.count,
        }
        return columns[name].astype(np.float64)

    def with_column(self, name: Column, values: Floats) -> Fleet:
        """The fleet with other values in one column."""
        if name == "rate":
            return replace(self, rate=values)
        whole = values.astype(np.int64)
        if name == "samples":
            return replace(self, samples=whole)
        if name == "capacity":
            return replace(self, capacity=whole)
        return replace(self, count=whole)

    @property
    def overflow(self) -> int | None:
        """A row that breaks the paper's b_m ≤ C_m: what arrives in one round must fit."""
        rows = np.flatnonzero(self.fresh & (np.ceil(self.rate) > self.capacity))
        return int(rows[0]) if len(rows) else None


def _device(name: str, samples: int, arrivals: Arrivals, memory: Memory) -> Device:
    if isinstance(arrivals, Once) and isinstance(memory, Keep):
        return Device(name, samples, fresh=False)
    if isinstance(arrivals, Constant) and isinstance(memory, Fifo):
        return Device(name, samples, True, arrivals.rate, memory.capacity)
    raise InputError(
        f"client {name} has {arrivals} and {memory}; a what-if knows historical clients and those "
        "of a constant rate that keep their newest samples"
    )
