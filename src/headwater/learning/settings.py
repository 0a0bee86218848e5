"""Settings that are numbers: NumPy's are as good as Python's; what is wrong is named."""

from __future__ import annotations

import math

import numpy as np

from headwater.errors import InputError


def whole(name: str, value: object, least: int = 1, fix: str = "") -> int:
    """A whole number of at least ``least``.

    >>> whole("rounds", np.int32(3))
    3
    """
    fine = isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)
    if not fine or value < least:  # type: ignore[operator]
        hint = f" ({fix})" if fix else ""
        raise InputError(f"{name}: a whole number, at least {least}{hint}; got {value!r}")
    return int(value)  # type: ignore[call-overload]


def seed_number(value: object) -> int:
    """A seed: any whole number.

    >>> seed_number(np.uint8(7)), seed_number(-1)
    (7, -1)
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise InputError(f"seed: a whole number, such as 0; got {value!r}")
    return int(value)


def number(name: str, value: object, what: str = "a number") -> float:
    """A number, perhaps infinite, but not NaN.

    >>> number("radius", np.float32(0.5))
    0.5
    """
    real = isinstance(value, int | float | np.integer | np.floating)
    if not real or isinstance(value, bool) or value != value:  # NaN
        raise InputError(f"{name}: {what}; got {value!r}")
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:  # a whole number beyond all floats
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]
