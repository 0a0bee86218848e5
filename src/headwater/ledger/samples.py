"""The samples that a group of clients will see, by number: no features, no labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.randomness import Floats, Purpose, uniform


@dataclass(frozen=True)
class Samples:
    """Samples of clients that follow the same rule, client after client, in order of arrival.

    Attributes:
        client: the client that each sample belongs to.
        position: its arrival number at that client: 0, 1, 2, …
        seed: of the run.

    Example:
        >>> some = Samples.of(clients=np.array([0, 3]), counts=np.array([2, 3]), seed=0)
        >>> some.client, some.position
        (array([0, 0, 3, 3, 3]), array([0, 1, 0, 1, 2]))
    """

    client: NDArray[np.int64]
    position: NDArray[np.int64]
    seed: int

    @classmethod
    def of(cls, clients: NDArray[np.int64], counts: NDArray[np.int64], seed: int) -> Samples:
        """Number the samples of these clients, each of which has so many."""
        starts = np.cumsum(counts) - counts
        position = np.arange(int(counts.sum())) - np.repeat(starts, counts)
        return cls(np.repeat(clients, counts), position, seed)

    def draw(self, purpose: Purpose) -> Floats:
        """Draw a uniform number in [0, 1) per sample, the same whoever else is in the group."""
        return uniform(self.seed, purpose, self.client, self.position)
