"""Randomness as an argument: a number for every (seed, purpose, coordinates).

Each draw is a hash of what it is for, so it does not depend on the order of the calls, on which
other clients exist, or on which process asks: a device can draw for itself what a simulation draws
for all clients at once. The hash chains SplitMix64's finaliser (Steele, Lea, Flood: *Fast
splittable pseudorandom number generators*, OOPSLA 2014), which passes BigCrush on counters; a NumPy
``Generator`` per client would cost more than the client's whole round.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]

# The constants of SplitMix64: the golden ratio's fraction, two odd multipliers, and the shifts.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_S30 = np.uint64(30)
_S27 = np.uint64(27)
_S31 = np.uint64(31)
_S11 = np.uint64(11)  # keeps the upper 53 bits of 64: as many as a float64 has


class Purpose(IntEnum):
    """What a draw is for; draws for different purposes are independent."""

    ARRIVALS = 1
    MEMORY = 2
    BATCH = 3
    PARTICIPATION = 4
    MODEL = 5
    DROPOUT = 6
    DATA = 7
    ESTIMATE = 8


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every bit of the input over all bits of the output, reversibly."""
    z = (z ^ (z >> _S30)) * _MIX1
    z = (z ^ (z >> _S27)) * _MIX2
    return z ^ (z >> _S31)


def key(seed: int, purpose: Purpose, *coordinates: int | Integers) -> NDArray[np.uint64]:
    """Hash to 64 bits for each place of the broadcast coordinates.

    Scalars first, arrays last: the scalars' part is then hashed once and not for every place.

    Example:
        >>> int(key(0, Purpose.BATCH, 3)) == int(key(0, Purpose.BATCH, np.array([2, 3]))[1])
        True
    """
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is meant
        state = _mix(np.asarray(seed % 2**64, np.uint64) + _GOLDEN * np.uint64(purpose))
        for coordinate in coordinates:
            state = _mix((state ^ np.asarray(coordinate).astype(np.uint64)) + _GOLDEN)
    return state


def uniform(seed: int, purpose: Purpose, *coordinates: int | Integers) -> Floats:
    """Draw uniform numbers in [0, 1), one for each place of the broadcast coordinates.

    Example:
        >>> uniform(7, Purpose.MEMORY, 0, np.arange(3)).round(4)
        array([0.9081, 0.9937, 0.1702])
    """
    return (key(seed, purpose, *coordinates) >> _S11).astype(np.float64) * 2.0**-53


def below(bound: int | Integers, draw: Floats) -> NDArray[np.int64]:
    """Turn uniform numbers in [0, 1) into uniform whole numbers in [0, bound).

    Example:
        >>> below(6, np.array([0.0, 0.5, 0.99]))
        array([0, 3, 5])
    """
    return (draw * np.asarray(bound)).astype(np.int64)
