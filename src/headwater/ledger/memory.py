"""Memory rules (``Update`` in line 6 of Algorithm 1), over sample numbers only.

A rule is a map from arrivals to slots: it says in which of the memory's slots a sample is put, and
whoever was in that slot is gone. *How many* samples are kept is the number of slots; *whom* to
evict is the choice of the slot. The invariant "never more than ``capacity`` samples" needs no check
then: there are no more slots. And the same map runs a memory on a device, one sample after the
other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.ledger.checks import is_whole
from headwater.ledger.samples import Samples
from headwater.randomness import Purpose, below

Slots = NDArray[np.int64]

REJECTED = -1
"""The slot of a sample that is not kept."""


@runtime_checkable
class Memory(Protocol):
    """Which samples a client keeps."""

    @property
    def capacity(self) -> int | None:
        """The number of slots, C_m in the paper; None: no limit."""
        ...

    def slots(self, samples: Samples) -> Slots:
        """Give the slot, from 0, that each arriving sample is put into; ``REJECTED``: not kept."""
        ...


@dataclass(frozen=True)
class Keep:
    """Keep everything: every sample has a slot of its own.

    Example:
        >>> Keep().slots(Samples.of(np.array([0]), np.array([3]), seed=0))
        array([0, 1, 2])
    """

    @property
    def capacity(self) -> None:
        """There is no limit."""

    def slots(self, samples: Samples) -> Slots:
        """The slot is the arrival number."""
        return samples.position


@dataclass(frozen=True)
class Fifo:
    """Keep the ``capacity`` newest samples: first in, first out.

    Example:
        >>> Fifo(2).slots(Samples.of(np.array([0]), np.array([5]), seed=0))
        array([0, 1, 0, 1, 0])
    """

    capacity: int

    def __post_init__(self) -> None:
        _check_capacity("Fifo", self.capacity)

    def slots(self, samples: Samples) -> Slots:
        """Take the slots in turn, so that the oldest sample is overwritten."""
        return samples.position % self.capacity


@dataclass(frozen=True)
class Reservoir:
    """Keep ``capacity`` samples, each of those seen so far with equal probability.

    Algorithm R of Vitter, *Random sampling with a reservoir*, 1985.

    Example:
        >>> Reservoir(2).slots(Samples.of(np.array([0]), np.array([8]), seed=1))
        array([ 0,  1,  1, -1,  0,  1, -1,  1])
    """

    capacity: int

    def __post_init__(self) -> None:
        _check_capacity("Reservoir", self.capacity)

    def slots(self, samples: Samples) -> Slots:
        """Draw one of the first ``position + 1`` places, of which only ``capacity`` exist."""
        place = below(samples.position + 1, samples.draw(Purpose.MEMORY))
        chosen = np.where(place < self.capacity, place, REJECTED)
        return np.where(samples.position < self.capacity, samples.position, chosen)


def _check_capacity(name: str, capacity: object) -> None:
    if not is_whole(capacity) or not 1 <= capacity < 2**62:
        raise InputError(
            f"{name}(capacity): a whole number of samples, at least 1 and below 2^62; got "
            f"{capacity!r}"
        )
