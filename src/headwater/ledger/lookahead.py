"""What has to be known of a whole stream before its first round, in little memory.

A strategy with fixed weights asks for how many rounds a sample will be held, and how many samples
each client will have collected. Both follow from when something is put into which place of the
memories. For samples of one stretch of rounds it is enough to know, of every place, when something
is put there next after that stretch: one number for each place and stretch, however many samples
there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.ledger.arriving import Arriving
from headwater.ledger.holdings import Counts, Holdings
from headwater.ledger.strategies import (
    ByMemory,
    Fresh,
    Historical,
    Importance,
    Share,
    Strategy,
    Uniform,
)
from headwater.randomness import Floats

BY_TOTALS = (Uniform, Share, Historical, Fresh, Importance, ByMemory)
"""Strategies whose weights follow from a sample's rounds in memory and its client's totals."""


def check_strategy(strategy: Strategy) -> None:
    """Refuse strategies that look at more of a run than can be known of a flow."""
    if not isinstance(strategy, BY_TOTALS):
        names = ", ".join(kind.__name__ for kind in BY_TOTALS)
        raise InputError(
            f"strategy: of a stream that is not written down, {names} can be worked out; for "
            f"{strategy!r} make a Ledger, and give its importance to Importance(p)"
        )


@dataclass(frozen=True)
class Lookahead:
    """The future of a flow.

    Attributes:
        entries: (stretches + 1, places): the first round, in this stretch or later, in which
            something is put into this place; the round after the last if nothing is any more.
        collected: N_m, how many samples of each client are in memory for at least one round.
        historical: clients whose memory never changes after round 1.
        owners: the client of each place.
        last: T, the number of rounds.
    """

    entries: NDArray[np.int32]
    collected: Counts
    historical: NDArray[np.bool_]
    owners: Counts
    last: int

    @classmethod
    def over(
        cls, stretches: Iterable[Arriving], owners: Counts, clients: int, last: int
    ) -> Lookahead:
        """Look at the whole stream once, a stretch at a time."""
        collected = np.zeros(clients, np.int64)
        changes = np.zeros(clients, bool)
        never = np.full(len(owners), last + 1, np.int32)
        tables = []
        for arriving in stretches:
            first = never.copy()
            # Backwards in time: what is written last, and stays, is the earliest.
            first[arriving.place[::-1]] = arriving.round[::-1]
            tables.append(first)
            # What is put aside in the round in which it came was never held.
            held = _leaves(arriving, never) != arriving.round
            who = owners[arriving.place[held]]
            collected += np.bincount(who, minlength=clients)
            changes[who[arriving.round[held] > 1]] = True
        entries = np.minimum.accumulate(np.stack([*tables, never])[::-1])[::-1]
        return cls(entries, collected, (collected > 0) & ~changes, owners, last)

    def weights(
        self, strategy: Strategy, arriving: Arriving, stretch: int
    ) -> tuple[Floats, Counts]:
        """λ of the samples that arrive in a stretch, and the round in which each will be gone."""
        leave = _leaves(arriving, self.entries[stretch + 1])
        some = _Some(
            offsets=np.zeros(len(self.collected) + 1, np.int64),
            enter=arriving.round.astype(np.int32),
            leave=leave.astype(np.int32),
            rounds=self.last,
            who=self.owners[arriving.place],
            ahead=self,
        )
        found = strategy.weights(some)
        assert not callable(found)
        return found, leave


def _leaves(arriving: Arriving, afterwards: NDArray[np.int32]) -> Counts:
    """When each sample is gone: something is put into its place, in this stretch or afterwards."""
    leave = afterwards[arriving.place].astype(np.int64)
    by_place = np.argsort(arriving.place, kind="stable")  # stable: within a place in order of time
    place, rounds = arriving.place[by_place], arriving.round[by_place]
    followed = np.flatnonzero(place[1:] == place[:-1])
    leave[by_place[followed]] = rounds[followed + 1]
    return leave


@dataclass(frozen=True)
class _Some(Holdings):
    """Some samples of a run, in any order, with the clients' totals of the whole of it.

    Attributes:
        who: the client of each sample.
        ahead: what knows the totals.
    """

    who: Counts = field(kw_only=True)
    ahead: Lookahead = field(kw_only=True)

    @cached_property
    def client(self) -> NDArray[np.int32]:
        return self.who.astype(np.int32)

    @cached_property
    def collected(self) -> Counts:
        return self.ahead.collected

    @cached_property
    def historical(self) -> NDArray[np.bool_]:
        return self.ahead.historical
