"""How the recommendation moves when a device gets more memory or a faster stream, or leaves.

A scenario is one or more changes, separated by commas:

    capacity=2x              every fresh client can keep twice as many samples
    capacity:gateway=64      gateway can keep 64 samples
    rate=0.5x, rate:cam3=8   streams of half the speed; cam3 brings 8 samples a round
    samples:server=2x        server has twice the samples (alone, samples=2x: every historical
    client) count:sensor=0.5x        half as many clients of the kind sensor (alone, count=2x: of
    every fresh kind) leave=cam3               cam3 is no longer there

Only the sharper bound knows of memories and rates, so it is what scenarios are judged by.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headwater.errors import InputError
from headwater.fleet.comparison import group_noise
from headwater.fleet.fleet import Fleet
from headwater.fleet.outlook import Outlook
from headwater.planner import minimise

GRAMMAR = (
    "capacity=2x, rate:NAME=8, samples=2x, count:NAME=0.5x, leave=NAME; several at once with commas"
)
_CHANGE = re.compile(
    r"(?P<field>capacity|rate|samples|count)(:(?P<client>.+))?=(?P<value>[^=x]+)(?P<times>x)?"
)
AS_IT_IS = "as it is"


@dataclass(frozen=True)
class Change:
    """One change: ``client`` leaves, or its ``field`` becomes ``value``, or ``value`` times what it
    was."""

    field: str
    client: str | None
    value: float = 0.0
    times: bool = False

    @classmethod
    def parse(cls, text: str) -> Change:
        """Read a change.

        >>> Change.parse("capacity:gateway=2x")
        Change(field='capacity', client='gateway', value=2.0, times=True)
        """
        field, _, client = text.partition("=")
        if field == "leave" and client:
            return cls("leave", client)
        match = _CHANGE.fullmatch(text)
        if not match:
            raise InputError(f"what-if {text!r} is not understood; write {GRAMMAR}")
        return cls(
            match["field"],
            match["client"],
            _positive(match["value"], text),
            match["times"] is not None,
        )

    def apply(self, fleet: Fleet) -> Fleet:
        """The fleet after the change."""
        if self.field == "leave":
            return fleet.without(fleet.row(self.client or ""))
        rows = self._rows(fleet)
        values = getattr(fleet, self.field).astype(np.float64)
        values[rows] = values[rows] * self.value if self.times else self.value
        if self.field == "rate":  # a faster stream brings more samples
            faster = np.divide(values, fleet.rate, where=fleet.fresh, out=np.ones(len(fleet)))
            fleet = fleet.with_column(
                "samples", np.ceil(fleet.samples * faster - 1e-9).astype(np.int64)
            )
            return fleet.with_column("rate", values.round(9))
        values[rows] = np.maximum(1, np.floor(values[rows] + 1e-9))
        return fleet.with_column(self.field, values.astype(np.int64))

    def _rows(self, fleet: Fleet) -> np.ndarray:
        if self.client is None:
            rows = np.flatnonzero(~fleet.fresh if self.field == "samples" else fleet.fresh)
            if not len(rows):
                who = "historical" if self.field == "samples" else "fresh"
                raise InputError(
                    f"what-if {self.field}: there are no {who} clients in this federation"
                )
            return rows
        row = fleet.row(self.client)
        if not fleet.fresh[row] and self.field in ("capacity", "rate"):
            raise InputError(
                f"what-if {self.field}: client {self.client!r} is historical, it has all its "
                "samples and keeps "
                "them; use samples, count or leave"
            )
        return np.array([row])


@dataclass(frozen=True)
class Scenario:
    """Changes that happen together.

    >>> Scenario.parse("rate=2x, capacity=2x").changes[1]
    Change(field='capacity', client=None, value=2.0, times=True)
    """

    text: str
    changes: Sequence[Change]

    @classmethod
    def parse(cls, text: str) -> Scenario:
        """Read a scenario."""
        return cls(text, [Change.parse(part.strip()) for part in text.split(",")])

    def apply(self, fleet: Fleet) -> Fleet:
        """The fleet after all changes; what comes in a round must still fit."""
        for change in self.changes:
            fleet = change.apply(fleet)
        if fleet.overflow is not None:
            row = fleet.row(fleet.overflow)
            raise InputError(
                f"what-if {self.text!r}: client {fleet.overflow!r} would get {fleet.rate[row]:g} "
                "samples a round "
                f"and can keep {fleet.capacity[row]}; a round's must fit. Change both at once, as "
                "in "
                "rate=2x,capacity=2x"
            )
        return fleet

    @property
    def clients(self) -> list[str]:
        """The clients that are named."""
        return list(
            dict.fromkeys(change.client for change in self.changes if change.client is not None)
        )


@dataclass(frozen=True)
class Outcome:
    """What the sharper bound recommends and predicts in a scenario.

    Attributes:
        scenario: in the user's words.
        historical: recommended importance of the historical clients together.
        effective_samples: N_eff there.
        total: ψ/c1, c1 being that of the fleet as it is.
        clients: recommended importance of each client that the scenario names, now and then; a
            row's together.
    """

    scenario: str
    historical: float
    effective_samples: float
    total: float
    clients: dict[str, tuple[float, float]]


def what_if(
    fleet: Fleet, scenarios: Sequence[Scenario], ratio: float, rounds: int
) -> list[Outcome]:
    """Judge scenarios by the sharper bound, the fleet as it is first.

    The prices stay what they are: of noise, c1/√(M − M_hist) = σ0·D, and of an effective sample,
    c2·√N, as if c2 were all √(d/N). The part of c2 that comes from discrepancy would stay the same
    when N grows; where it is large, what more samples gain is less than shown.

    Args:
        fleet: as it is.
        scenarios: what might change.
        ratio: c2/c1 of the fleet as it is.
        rounds: T.

    >>> from headwater.fleet.fleet import Kind
    >>> fleet = Fleet.of([Kind("server", 400, False), Kind("sensor", 1600, True, 16, 16)])
    >>> for outcome in what_if(fleet, [Scenario.parse("capacity=4x")], ratio=0.3, rounds=100):
    ...     print(outcome.scenario, round(outcome.historical, 3), round(outcome.total, 3))
    as it is 0.341 0.482
    capacity=4x 0.268 0.396
    """
    now = Outlook.of(fleet, rounds)
    shares: dict[str, float] = {}
    outcomes = []
    for scenario in (Scenario(AS_IT_IS, []), *scenarios):
        outlook = Outlook.of(scenario.apply(fleet), rounds)
        noise = group_noise(outlook, "sharp") * (
            max(1.0, outlook.fresh_clients) / max(1.0, now.fresh_clients)
        )
        best = minimise(
            noise, outlook.group_samples, ratio * float(np.sqrt(now.total / outlook.total))
        )
        then = dict(zip(outlook.names, best.importance.tolist(), strict=True))
        shares = shares or then
        named = {name: (shares[name], then.get(name, 0.0)) for name in scenario.clients}
        effective = 1 / float((best.importance**2 / outlook.group_samples).sum())
        historical = float(best.importance[~outlook.fresh].sum())
        outcomes.append(Outcome(scenario.text, historical, effective, best.value, named))
    return outcomes


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
