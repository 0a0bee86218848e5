"""Changes of a fleet, as a user writes them.

A scenario is one or more changes, separated by commas:

    capacity=2x                every fresh client can keep twice as many samples
    capacity:gateway=64        gateway can keep 64 samples
    rate=0.5x, rate:cam3=8     streams of half the speed; cam3 brings 8 samples per round
    samples:server=2x          server has twice the samples
    samples=2x                 every historical client has
    count:sensor=0.5x          half as many clients of the row, or of the kind, sensor
    count=2x                   twice as many fresh clients of every kind
    leave=cam3                 cam3 is no longer there

A name is that of a row, or a kind that several rows share.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from headwater.errors import InputError
from headwater.fleet.fleet import LARGEST, Column, Fleet, Rows
from headwater.randomness import Floats

GRAMMAR = (
    "capacity=2x, rate:NAME=8, samples=2x, count:NAME=0.5x, leave=NAME; several at once with commas"
)
_CHANGE = re.compile(
    r"(?P<field>capacity|rate|samples|count)(:(?P<name>.+))?=(?P<value>[^=x]+)(?P<times>x)?",
    re.DOTALL,
)
_BETWEEN_CHANGES = re.compile(r",(?=\s*(?:capacity|rate|samples|count|leave)\s*[:=])")
_CLOSE = 1e-9  # 0.3 · 10 is below 3 in floating point, and must not become two clients


@dataclass(frozen=True)
class Change:
    """One change: somebody leaves, or a column becomes ``value`` or ``value`` times what it was.

    Attributes:
        field: a column, or "leave".
        name: of a row or of a kind; None: all whom the change can concern.
        value: a number or, with ``times``, a factor.
        times: whether it is a factor.
    """

    field: str
    name: str | None
    value: float = 0.0
    times: bool = False

    @classmethod
    def parse(cls, text: str) -> Change:
        """Read a change.

        >>> Change.parse("capacity:gateway=2x")
        Change(field='capacity', name='gateway', value=2.0, times=True)
        """
        field, _, name = text.partition("=")
        if field == "leave" and name:
            return cls("leave", name)
        match = _CHANGE.fullmatch(text)
        if not match:
            raise InputError(f"what-if {text!r} is not understood; write {GRAMMAR}")
        value = _positive(match["value"], text)
        return cls(match["field"], match["name"], value, match["times"] is not None)

    def apply(self, fleet: Fleet) -> Fleet:
        """The fleet after the change."""
        rows = self._rows(fleet)
        if self.field == "leave":
            return fleet.without(rows)
        if self.field == "count":
            return self._recount(fleet, rows)
        if self.field == "rate":
            return self._quicken(fleet, rows)
        column = cast(Column, self.field)
        values = self._changed(fleet.column(column), rows)
        values[rows] = np.maximum(1, np.floor(values[rows] + _CLOSE))
        return fleet.with_column(column, values)

    def _changed(self, values: Floats, rows: Rows) -> Floats:
        values[rows] = values[rows] * self.value if self.times else self.value
        self._check(float(values[rows].max()))
        return values

    def _check(self, value: float) -> None:
        if value > LARGEST:
            raise InputError(f"what-if {self.field}: {value:g} is more than {LARGEST:g}")

    def _quicken(self, fleet: Fleet, rows: Rows) -> Fleet:
        """Other rates; a faster stream brings more samples."""
        rate = self._changed(fleet.column("rate"), rows)
        rate[rows] = _twelve_digits(rate[rows])
        faster = np.divide(rate, fleet.rate, where=fleet.fresh, out=np.ones(len(fleet)))
        samples = np.maximum(1, np.ceil(fleet.samples * faster - _CLOSE))
        self._check(float(samples.max()))
        return fleet.with_column("rate", rate).with_column("samples", samples)

    def _recount(self, fleet: Fleet, rows: Rows) -> Fleet:
        """Other numbers of clients; where each has a row of its own, some rows go."""
        count = fleet.column("count")
        for group in fleet.groups(rows):
            now = float(count[group].sum())
            wanted = now * self.value if self.times else self.value
            self._check(wanted)
            wanted = max(1.0, np.floor(wanted + _CLOSE))
            # Clients are numbered through the rows of the kind; every row gets its part of the
            # wanted ones, so that those who go are spread over all rows.
            until = np.floor(np.cumsum(count[group]) * (wanted / now) + _CLOSE)
            count[group] = np.diff(until, prepend=0.0)
        changed = fleet.with_column("count", count)
        empty = np.flatnonzero(count == 0)
        return changed.without(empty) if len(empty) else changed

    def _rows(self, fleet: Fleet) -> Rows:
        """The rows that the change concerns."""
        if self.name is None:
            return self._everybody(fleet)
        rows = fleet.rows(self.name)
        if self.field in ("capacity", "rate") and not fleet.fresh[rows].all():
            old = fleet.names[int(rows[~fleet.fresh[rows]][0])]
            raise InputError(
                f"what-if {self.field}: client {old!r} is historical, it has all its samples and "
                "keeps them; use samples, count or leave"
            )
        return rows

    def _everybody(self, fleet: Fleet) -> Rows:
        rows = np.flatnonzero(~fleet.fresh if self.field == "samples" else fleet.fresh)
        if not len(rows):
            who = "historical" if self.field == "samples" else "fresh"
            raise InputError(f"what-if {self.field}: there are no {who} clients in this fleet")
        return rows


@dataclass(frozen=True)
class Scenario:
    """Changes that happen together.

    >>> Scenario.parse("rate=2x, capacity=2x").changes[1]
    Change(field='capacity', name=None, value=2.0, times=True)
    """

    text: str
    changes: Sequence[Change]

    @classmethod
    def parse(cls, text: str) -> Scenario:
        """Read a scenario."""
        parts = _BETWEEN_CHANGES.split(text)
        return cls(text, [Change.parse(part.strip()) for part in parts])

    def apply(self, fleet: Fleet) -> Fleet:
        """The fleet after all changes; what comes in a round must still fit."""
        for change in self.changes:
            fleet = change.apply(fleet)
        row = fleet.overflow
        if row is not None:
            raise InputError(
                f"what-if {self.text!r}: client {fleet.names[row]!r} would get "
                f"{fleet.rate[row]:g} samples per round and can keep {fleet.capacity[row]}; a "
                "round's must fit. Change both at once, as in rate=2x,capacity=2x"
            )
        return fleet

    @property
    def names(self) -> list[str]:
        """The rows and kinds that are named."""
        named = (change.name for change in self.changes if change.name is not None)
        return list(dict.fromkeys(named))


def _twelve_digits(values: Floats) -> Floats:
    """Numbers without what products lose to rounding, as 30 times 0.1 is 3 and must fit into 3."""
    scale = 10.0 ** np.minimum(11 - np.floor(np.log10(values)), 300)
    return np.round(values * scale) / scale


def _positive(text: str, change: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not 0 < value < np.inf:
        raise InputError(
            f"what-if {change!r}: {text!r} must be a number above 0, or a factor such as 2x"
        )
    return value
