"""Spells: stretches of rounds in which the memory of one client does not change.

A client's total weight, and how many samples it draws from, change only when a sample enters or
leaves. Between two such moments they are constant, so that sums over rounds and clients become sums
over spells: at most two per sample, however long the run is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headwater.ledger.exact_sums import Places, covering, within
from headwater.ledger.holdings import Counts
from headwater.randomness import Floats


@dataclass(frozen=True)
class Spells:
    """The spells of all clients, client after client, in order of time.

    Attributes:
        client: whose memory it is.
        begin: the first round of each spell.
        end: the first round after it; a client's last spell, after which nothing is held, is empty.
        first: for each sample, the first spell in which it is held.
        last: for each sample, the first spell in which it no longer is.

    Example:
        >>> one = np.zeros(2, int)
        >>> spells = Spells.of(one, enter=np.array([1, 2]), leave=np.array([3, 5]), rounds=4)
        >>> spells.begin, spells.end, spells.held
        (array([1, 2, 3, 5]), array([2, 3, 5, 5]), array([1., 2., 1., 0.]))
    """

    client: Counts
    begin: Counts
    end: Counts
    first: Counts
    last: Counts

    @classmethod
    def of(cls, client: Places, enter: Places, leave: Places, rounds: int) -> Spells:
        """Find the spells of samples that are each held for at least one round."""
        # A moment is a client and a round in one whole number, so that sorting them puts client
        # after client and, within a client, round after round.
        size = rounds + 2
        row = client.astype(np.int64) * size
        moments = np.concatenate([row + enter, row + leave])
        # A stable sort merges runs that are sorted already, as entries are and departures often.
        order = np.argsort(moments, kind="stable")
        in_order = moments[order]
        # Several samples may enter or leave at one moment, which begins a single spell.
        new = np.diff(in_order, prepend=-1) > 0
        place = np.empty(len(moments), np.int64)
        place[order] = np.cumsum(new) - 1
        moments = in_order[new]
        begin = moments % size
        # A spell ends where the client's next one begins; the last of a client is empty.
        following = np.append(begin[1:], 0)
        end = np.maximum(begin, np.where(np.append(np.diff(moments // size), 1), begin, following))
        return cls(moments // size, begin, end, *np.split(place, 2))

    def __len__(self) -> int:
        return len(self.begin)

    @cached_property
    def held(self) -> Floats:
        """How many samples are held in each spell."""
        return self.sum_of(np.ones(len(self.first)))

    def sum_of(self, values: Floats) -> Floats:
        """Add one value per sample over the samples that are held in each spell."""
        return covering(self.first, self.last, values, len(self))

    def over_rounds(self, values: Floats) -> Floats:
        """Add one value per round over the rounds of each spell."""
        return within(self.begin - 1, self.end - 1, values)

    def over_spells(self, values: Floats) -> Floats:
        """Add one value per spell over the spells in which each sample is held."""
        return within(self.first, self.last, values)
