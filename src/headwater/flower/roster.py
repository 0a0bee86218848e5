"""Who is there: the clients of a run by their own names, with what they last said of themselves.

A client is known by its ``client-id``, not by Flower's node number, which changes when a node
without a key restarts. The first clients are numbered in the order of their names, later ones as
they come; a number is never given twice, since randomness and the ledger are keyed by it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeGuard

import numpy as np

from headwater.errors import InputError
from headwater.flower.declared import check_declared
from headwater.randomness import Floats

_NAME = re.compile(r"[\w.:@ -]{1,128}")
LARGEST = 2**53
"""Counts of samples beyond this are not believed; up to it doubles are exact."""


@dataclass(frozen=True)
class Standing:
    """What the server knows of one client.

    Attributes:
        name: its client-id.
        node: Flower's number of its node, now.
        arrived: samples that it has seen so far.
        held: samples in its memory.
        capacity: of its memory; None: no limit.
        memory: the name of its memory rule.
        rate: samples per second, recently.
        historical: all its samples were there from the start.
        key: its own number and seed, by which its memory draws.
        declared: the arrival process that its stream follows round by round, if it says so.
        asked, answered: rounds in which it was asked for its update, and gave one; those whose
            update was refused count in neither.
        joined: the first round in which it could be asked.
        heard: the round at whose end it last reported its counts; joined − 1 before that.
        first_arrived: what had arrived when it joined.
        prequential: what it measured on its latest samples before learning from them.
        seen: when it last answered (seconds since the epoch).
    """

    name: str
    node: int
    arrived: int
    held: int
    capacity: int | None
    memory: str
    rate: float
    historical: bool
    key: tuple[int, int] | None = None
    declared: dict[str, Any] | None = None
    asked: int = 0
    answered: int = 0
    joined: int = 1
    heard: int = 0
    first_arrived: int = 0
    prequential: dict[str, float] = field(default_factory=dict)
    seen: float = 0.0

    @property
    def availability(self) -> float:
        """How often it answered; a newcomer is believed to answer always."""
        return (self.answered + 1) / (self.asked + 1)

    @property
    def rounds_seen(self) -> int:
        """Rounds over which its counts are known; streams flow on in those that it missed."""
        return self.heard - self.joined + 1

    @property
    def arrivals_per_round(self) -> float:
        """Samples that came per round since it joined, whether it was asked in a round or not."""
        if self.historical or not self.rounds_seen:
            return 0.0
        return max(0, self.arrived - self.first_arrived) / self.rounds_seen


class Roster:
    """The clients of a run; a client's number is its place."""

    def __init__(self, standings: Iterable[Standing] = ()) -> None:
        self._all = list(standings)
        self._numbers = {standing.name: m for m, standing in enumerate(self._all)}

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, client: int) -> Standing:
        return self._all[client]

    def __iter__(self) -> Iterator[Standing]:
        return iter(self._all)

    @property
    def nodes(self) -> set[int]:
        """Flower's numbers of the nodes that are known."""
        return {standing.node for standing in self._all}

    def number(self, name: str) -> int | None:
        """A client's number; None: it is not known."""
        return self._numbers.get(name)

    def column(self, name: str) -> Floats:
        """One number of every client, in the order of their numbers."""
        values = (getattr(standing, name) for standing in self._all)
        return np.array([math.inf if value is None else value for value in values], np.float64)

    def welcome(
        self, arrivals: Mapping[int, Mapping[str, Any]], connected: set[int], round: int = 0
    ) -> list[str]:
        """Take in descriptions of nodes; returns the names of those that are new.

        A name that a connected node has already is refused to a second one: who copies a
        configuration does not get another's share, and nobody counts twice.

        Args:
            arrivals: descriptions by Flower's numbers of the nodes.
            connected: numbers of the nodes that are connected now.
            round: the one that is under way, in which they can no longer be asked.
        """
        new = []
        found = [_parse(node, description, round) for node, description in arrivals.items()]
        for standing in sorted(found, key=lambda standing: natural(standing.name)):
            known = self.number(standing.name)
            if known is None:
                self._numbers[standing.name] = len(self._all)
                self._all.append(standing)
                new.append(standing.name)
            elif self._all[known].node not in connected - {standing.node}:
                self.update(known, **_again(standing))
        return new

    def settled(self) -> Roster:
        """The same clients, numbered by their names: before round 1, whoever spoke up first."""
        return Roster(sorted(self._all, key=lambda standing: natural(standing.name)))

    def update(self, client: int, **changes: Any) -> None:
        """Replace some of what is known of a client."""
        self._all[client] = replace(self._all[client], **changes)

    def as_json(self) -> list[dict[str, Any]]:
        """For the checkpoint."""
        return [asdict(standing) for standing in self._all]

    @classmethod
    def from_json(cls, rows: Iterable[dict[str, Any]]) -> Roster:
        """From the checkpoint."""
        # JSON has no tuples
        return cls(Standing(**row | {"key": row["key"] and tuple(row["key"])}) for row in rows)


def is_name(value: object) -> TypeGuard[str]:
    """May a client be called so?

    >>> is_name("gateway-7"), is_name("streams/+"), is_name(None)
    (True, False, False)
    """
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def natural(name: str) -> list[tuple[bool, int, str]]:
    """Names with numbers in them in the order that people expect.

    >>> sorted(["node10", "node9"], key=natural)
    ['node9', 'node10']
    """
    parts = re.split(r"(\d+)", name)
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


def _again(standing: Standing) -> dict[str, Any]:
    """What a known client says anew when it comes back."""
    fresh = ("node", "arrived", "held", "capacity", "rate", "seen", "heard")
    return {name: getattr(standing, name) for name in fresh}


def _parse(node: int, description: Mapping[str, Any], round: int) -> Standing:
    """A description, believed only where it makes sense."""
    name = description.get("client-id")
    if not is_name(name):
        raise InputError(f"node {node}: client-id {name!r}; letters, digits and . : @ _ - please")
    declared = check_declared(name, description.get("declared"))
    capacity = description.get("capacity")
    arrived = _count(name, "arrived", description.get("arrived", 0))
    held = _count(name, "held", description.get("held", 0))
    historical = bool(description.get("historical", False))
    if historical and declared and not arrived:  # they are taken in when the first round asks
        arrived = held = _count(name, "samples", declared.get("samples", 0))
    return Standing(
        name=name,
        node=node,
        arrived=arrived,
        held=held,
        capacity=None if capacity is None else _count(name, "capacity", capacity),
        memory=str(description.get("memory", "Keep")),
        rate=_rate(name, description.get("rate") or 0.0),
        historical=historical,
        key=_key(description),
        declared=declared,
        joined=round + 1,
        heard=round,
        first_arrived=arrived,
    )


def _rate(client: str, value: object) -> float:
    if not isinstance(value, int | float) or not 0 <= value < LARGEST:
        raise InputError(f"client {client}: rate is {value!r}; a number from 0 is expected")
    return float(value)


def _key(description: Mapping[str, Any]) -> tuple[int, int] | None:
    number, seed = description.get("number"), description.get("seed")
    return (number, seed) if isinstance(number, int) and isinstance(seed, int) else None


def _count(client: str, name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < LARGEST:
        raise InputError(f"client {client}: {name} is {value!r}; a whole number from 0 is expected")
    return value
