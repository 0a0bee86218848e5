"""One round of a run: who counts how much, with which samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from headwater.ledger.holdings import Counts
from headwater.randomness import Floats


@dataclass(frozen=True)
class Round:
    """What is in the memories in one round, for the clients that count.

    Attributes:
        number: the round t, from 1.
        clients: the clients with a sample of positive weight, in ascending order.
        shares: p_m(t) of these clients; they sum to one.
        offsets: entries offsets[k] … offsets[k + 1] − 1 of the next two arrays belong to
            clients[k].
        samples: sample numbers.
        weights: λ_m(t, j) over the client's sum of them; they sum to one for every client.
    """

    number: int
    clients: Counts
    shares: Floats
    offsets: Counts
    samples: Counts
    weights: Floats

    @classmethod
    def of(cls, number: int, samples: Counts, weights: Floats, starts: Counts) -> Round:
        """Put together the samples that count.

        Args:
            number: the round.
            samples: sample numbers, ascending.
            weights: λ of each, above 0.
            starts: where each client's sample numbers begin, and where the last client's end.
        """
        # Sample numbers ascend, and so do clients: where each client's begin is a binary search.
        counts = np.diff(np.searchsorted(samples, starts))
        # Only clients with a sample appear, so that reduceat meets no empty stretch.
        clients = np.flatnonzero(counts)
        counts = counts[clients]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        totals = np.add.reduceat(weights, offsets[:-1])
        within = weights / np.repeat(totals, counts)
        return cls(number, clients, totals / totals.sum(), offsets, samples, within)


class Rounds(Protocol):
    """What a learner follows: a ledger, or a flow of which no more is known than the next round."""

    def rounds(self, first: int = 1) -> Iterator[Round]:
        """The rounds from ``first`` to the last; equal ones in a row share their arrays."""
        ...

    @property
    def round_shares(self) -> Floats:
        """q(t), one number per round; they sum to one."""
        ...
