"""What the planner accepts: counts, masks, ratios, importances; and how it says no."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from headwater.errors import InputError

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Noise = Floats | Mask
"""The noise v_m of each client; a mask stands for ones and zeros."""

SUM_TOLERANCE = 1e-6
"""How far importances may be from summing to one before they count as a mistake. Sums of float32
numbers pass."""

SMALLEST_SHARE = 1e-150
"""Below this share of all samples a client's 1/n_m leaves the range that float64 can square."""


def vector(values: npt.ArrayLike, name: str) -> Floats:
    """Turn values into a flat float64 array with at least one entry, or say which is no number."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(
            f"{name} must be a flat list of numbers, one for each client: {error}"
        ) from error
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            f"{name} has shape {array.shape}; give one number for each client, at least one client"
        )
    if isinstance(values, list | tuple):
        # NumPy turns a list of numbers and booleans into numbers; only the list still tells.
        if array.dtype.kind not in "iuf" or {bool, np.bool_} & set(map(type, values)):
            _all_numbers(values, name)
    elif array.dtype.kind not in "iuf":
        _all_numbers(array, name)
    return _as_floats(array, name)


def _as_floats(array: npt.NDArray[np.generic], name: str) -> Floats:
    try:
        return array.astype(np.float64, copy=False)
    except OverflowError:  # whole numbers of Python have no largest
        client = next(k for k, value in enumerate(array.tolist()) if not _fits(value))
        raise InputError(
            f"{name} of client {client} is beyond the range of float64; it must be below 1.8e308"
        ) from None


def _all_numbers(values: Iterable[object], name: str) -> None:
    for client, value in enumerate(values):
        if not is_number(value):
            raise InputError(f"{name} of client {client} is {value!r}, which is not a number")


def is_number(value: object) -> bool:
    """Whether this is a real number, of Python or of NumPy; True and False are none.

    >>> is_number(np.float32(0.5)), is_number(True), is_number("1")
    (True, False, False)
    """
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


def _fits(value: float) -> bool:
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _first(bad: Mask) -> int:
    return int(np.argmax(bad))


def counts(samples: npt.ArrayLike) -> Floats:
    """Check the clients' sample counts N_m, which are finite and above zero."""
    array = vector(samples, "samples")
    if not (array.min() > 0 and array.max() < math.inf):  # a NaN fails both
        client = _first(~((array > 0) & (array < math.inf)))
        raise InputError(
            f"samples of client {client} is {array[client]:g}; every client needs a finite count "
            "above zero (leave out clients that have no samples)"
        )
    return array


def relative_sizes(samples: npt.ArrayLike) -> Floats:
    """Relative sizes n_m = N_m / N of the clients, whatever the scale of the counts.

    >>> relative_sizes([1, 3]).tolist()
    [0.25, 0.75]
    """
    counted = counts(samples)
    sizes: Floats = counted / counted.max()  # first, so that the sum of huge counts stays finite
    sizes /= sizes.sum()
    if sizes.min() < SMALLEST_SHARE:
        client = int(np.argmin(sizes))
        raise InputError(
            f"samples of client {client} is less than {SMALLEST_SHARE:g} of all samples, too small "
            "to compute with; leave the client out"
        )
    return sizes


def mask(fresh: npt.ArrayLike, clients: int) -> Mask:
    """Check the mask of fresh clients, one boolean for each client."""
    array = np.asarray(fresh)
    if array.dtype != np.bool_:
        raise InputError(
            f"fresh holds {array.dtype} values; give True for a fresh and False for a historical "
            "client"
        )
    if array.shape != (clients,):
        raise InputError(
            f"fresh has shape {array.shape}, samples has {clients} clients; give one boolean for "
            "each"
        )
    return array


def non_negatives(values: npt.ArrayLike, clients: int, name: str) -> Floats:
    """Check one finite number for each client that is not below zero."""
    array = vector(values, name)
    if array.size != clients:
        raise InputError(
            f"{name} has {array.size} entries, samples has {clients} clients; give one for each"
        )
    if not (array.min() >= 0 and array.max() < math.inf):
        client = _first(~((array >= 0) & (array < math.inf)))
        raise InputError(
            f"{name} of client {client} is {array[client]:g}; it must be finite and not below zero"
        )
    return array


def noises(noise: npt.ArrayLike, clients: int) -> Noise:
    """Check the clients' noise v_m; a mask of booleans stands for ones and zeros."""
    array = np.asarray(noise)
    if array.dtype == np.bool_:
        return mask(array, clients)
    return non_negatives(noise, clients, "noise")


def distribution(values: npt.ArrayLike, clients: int, name: str) -> Floats:
    """Check a point of the simplex, which is not negative and sums to one."""
    array = non_negatives(values, clients, name)
    total = float(array.sum())
    if abs(total - 1) > SUM_TOLERANCE:
        raise InputError(
            f"{name} sums to {total:.9g}; the shares of all clients must sum to 1 (divide by their "
            "sum)"
        )
    return array


def number(value: float, name: str, *, infinite: bool = False, positive: bool = False) -> float:
    """Check one number that must not be below zero or, if ``positive``, must be above it."""
    allowed = ("above zero" if positive else "zero or more") + ("" if infinite else ", finite")
    result = _real(value, name, allowed)
    low = result > 0 if positive else result >= 0
    if not (low and (infinite or result < math.inf)):
        raise InputError(f"{name} is {value}; it must be {allowed}")
    return result


def finite(value: float, name: str) -> float:
    """Check one finite number of either sign."""
    result = _real(value, name, "a finite number")
    if not math.isfinite(result):
        raise InputError(f"{name} is {value}; it must be a finite number")
    return result


def _real(value: float, name: str, allowed: str) -> float:
    if not is_number(value):
        raise InputError(f"{name} is {value!r}, which is not a number; it must be {allowed}")
    if not _fits(value):
        raise InputError(f"{name} is beyond the range of float64; it must be {allowed}")
    return float(value)
