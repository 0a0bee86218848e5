"""Arrivals as they were recorded, sample by sample: data that carry their own times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.ledger.samples import Samples

Rounds = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Recorded:
    """The round of each sample's arrival, for all clients of a federation in one array.

    One such object serves all clients, so that they are unrolled together. Unlike the counts of a
    :class:`~headwater.ledger.arrivals.Trace`, a burst may bring more than a memory holds: what is
    overwritten in the round of its arrival is never learned from, as on a real device.

    Attributes:
        arrival: The round, counted from 1, in which each sample arrives; within a client they do
            not fall.
        offsets: Entries ``offsets[m]`` to ``offsets[m + 1] − 1`` belong to client m.

    Example:
        >>> recorded = Recorded(np.array([1, 1, 4, 2, 3]), np.array([0, 3, 5]))
        >>> recorded.rounds(Samples.of(np.array([1]), np.array([2]), seed=0))
        array([2, 3])
    """

    arrival: Rounds
    offsets: Rounds

    def __post_init__(self) -> None:
        arrival, offsets = np.asarray(self.arrival), np.asarray(self.offsets)
        if arrival.dtype.kind not in "iu" or (arrival < 1).any():
            raise InputError("Recorded(arrival): rounds are whole numbers, counted from 1")
        if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(arrival):
            raise InputError(
                f"Recorded(offsets): from 0 to the number of samples, {len(arrival)}; got {offsets}"
            )
        falls = np.flatnonzero(np.diff(arrival) < 0) + 1
        within = falls[~np.isin(falls, offsets)]
        if len(within):
            client = int(np.searchsorted(offsets, within[0], side="right")) - 1
            raise InputError(
                f"Recorded(arrival): client {client}'s sample {within[0] - offsets[client]} comes "
                "before the one in front of it; sort each client's samples by time"
            )

    def rounds(self, samples: Samples) -> Rounds:
        """As recorded."""
        return np.asarray(self.arrival[self.offsets[samples.client] + samples.position], np.int64)

    def largest_batch(self, count: int) -> int:  # noqa: ARG002 (the protocol's signature)
        """Not limited: a burst that does not fit is overwritten."""
        return 0
