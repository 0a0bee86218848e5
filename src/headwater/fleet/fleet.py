"""Clients as a planner sees them: how many samples, how fast they come, how many can be kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.ledger.arrivals import Arrivals, Constant, Once
from headwater.ledger.holdings import Counts
from headwater.ledger.memory import Fifo, Keep, Memory
from headwater.randomness import Floats

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Kind:
    """One row of a fleet: a client, or several that are alike.

    Attributes:
        name: of the client or of the group.
        samples: N_m, how many samples each has or will see.
        fresh: do they come as a stream?
        rate: b_m, samples a round; 0 for a historical client.
        capacity: C_m, samples that it can keep; 0 for a historical client, which keeps all.
        count: how many such clients there are.
    """

    name: str
    samples: int
    fresh: bool
    rate: float = 0.0
    capacity: int = 0
    count: int = 1


@dataclass(frozen=True)
class Fleet:
    """All clients, a row for each kind of client; the attributes are those of :class:`Kind`, as
    arrays.

    >>> sensor = Kind("sensor", 800, True, 8, 16, count=1000)
    >>> fleet = Fleet.of([Kind("server", 5000, False), sensor])
    >>> fleet.clients, fleet.row("sensor")
    (1001, 1)
    """

    names: Sequence[str]
    samples: Counts
    fresh: Flags
    rate: Floats
    capacity: Counts
    count: Counts

    @classmethod
    def of(cls, kinds: Iterable[Kind]) -> Fleet:
        """Stack rows."""
        rows = list(kinds)

        def column(name: str, kind: type) -> NDArray[Any]:
            return np.array([getattr(row, name) for row in rows], kind)

        return cls(
            names=[row.name for row in rows],
            samples=column("samples", np.int64),
            fresh=column("fresh", np.bool_),
            rate=column("rate", np.float64),
            capacity=column("capacity", np.int64),
            count=column("count", np.int64),
        )

    @classmethod
    def of_clients(
        cls, samples: Counts, arrivals: Sequence[Arrivals], memory: Sequence[Memory]
    ) -> Fleet:
        """The fleet of a federation whose clients are historical or have a constant rate and keep
        the newest."""
        parts = zip(samples.tolist(), arrivals, memory, strict=True)
        return cls.of(_kind(str(m), *part) for m, part in enumerate(parts))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def clients(self) -> int:
        """M, the number of clients."""
        return int(self.count.sum())

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.names)}

    def row(self, name: str) -> int:
        """The row of a client."""
        if name not in self._rows:
            known = ", ".join(list(self.names)[:5]) + (", …" if len(self) > 5 else "")
            raise InputError(f"there is no client {name!r} in this federation; there are: {known}")
        return self._rows[name]

    def without(self, row: int) -> Fleet:
        """The fleet when the clients of a row have left."""
        if len(self) == 1:
            raise InputError(
                f"client {self.names[row]!r} is the only one; nobody would be left to learn from"
            )
        kept = np.arange(len(self)) != row
        names = [name for k, name in enumerate(self.names) if k != row]
        arrays = (getattr(self, n)[kept] for n in ("samples", "fresh", "rate", "capacity", "count"))
        return Fleet(names, *arrays)

    def with_column(self, name: str, values: NDArray[Any]) -> Fleet:
        """The fleet with other values in one column."""
        changed: dict[str, Any] = {name: values}
        return replace(self, **changed)

    @property
    def overflow(self) -> str | None:
        """A client that breaks the paper's b_m ≤ C_m: what arrives in one round must fit into its
        memory."""
        rows = np.flatnonzero(self.fresh & (np.ceil(self.rate) > self.capacity))
        return self.names[int(rows[0])] if len(rows) else None


def _kind(name: str, samples: int, arrivals: Arrivals, memory: Memory) -> Kind:
    if isinstance(arrivals, Once) and isinstance(memory, Keep):
        return Kind(name, samples, fresh=False)
    if isinstance(arrivals, Constant) and isinstance(memory, Fifo):
        return Kind(name, samples, True, arrivals.rate, memory.capacity)
    raise InputError(
        f"client {name} has {arrivals} and {memory}; a what-if knows historical clients and those "
        "of a constant "
        "rate that keep their newest samples"
    )
