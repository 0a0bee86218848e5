"""From wall-clock time to rounds. Times are whole microseconds, or numbers of the user's own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.learning.columns import moment

Times = NDArray[Any]
Span = str | timedelta | np.timedelta64 | float
_MICROSECONDS = {"ms": 1e3, "s": 1e6, "min": 6e7, "h": 3.6e9, "d": 8.64e10, "w": 6.048e11}


@dataclass(frozen=True)
class Clock:
    """Round 1 begins at ``begin``, and every round lasts ``width``.

    Attributes:
        begin: A moment in microseconds since 1970, or a number of the user's own.
        width: A time span in microseconds, or a number of the user's own.
        numeric: Whether these are numbers of the user's own.

    Example:
        >>> Clock(10.0, 2.5, numeric=True).rounds(np.array([3.0, 10.0, 12.4, 12.5, 21.0]))
        array([1, 1, 1, 2, 5])
    """

    begin: float
    width: float
    numeric: bool

    @classmethod
    def starting(cls, times: Times, width: float, numeric: bool) -> Clock:
        """A clock whose rounds begin at multiples of their width: hours at the full hour."""
        return cls(times.min() // width * width, width, numeric)

    def rounds(self, times: Times) -> NDArray[np.int64]:
        """The round of each time; what came before round 1 is there when it begins."""
        return np.maximum(1, 1 + (times - self.begin) // self.width).astype(np.int64)

    @property
    def words(self) -> tuple[Any, Any]:
        """Begin and width as people know them."""
        if self.numeric:
            return self.begin, self.width
        return np.datetime64(int(self.begin), "us"), np.timedelta64(int(self.width), "us")


def span(round: Span, numeric: bool) -> float:
    """How long a round lasts, in the units of the times.

    Example:
        >>> span("15min", numeric=False), span(2.5, numeric=True)
        (900000000.0, 2.5)
    """
    if numeric or isinstance(round, bool | int | float):
        return _number(round, numeric)
    if isinstance(round, timedelta | np.timedelta64):
        width = float(np.timedelta64(round, "us").astype(np.int64))
    else:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|h|d|w)\s*", str(round).lower())
        width = float(found[1]) * _MICROSECONDS[found[2]] if found else 0.0
    if width < 1:
        raise InputError(f"round: a time span such as '30s', '15min', '1h', '7d'; got {round!r}")
    return width


def _number(round: object, numeric: bool) -> float:
    if not numeric:
        raise InputError(f"round: a time span such as '30s', '15min', '1h', '7d'; got {round!r}")
    if isinstance(round, bool) or not isinstance(round, int | float) or not 0 < round < np.inf:
        raise InputError(
            f"round: a number above 0, since the column of times holds numbers; got {round!r}"
        )
    return float(round)


def point(value: object, setting: str, numeric: bool) -> float:
    """A moment that a user wrote, in the units of the times.

    Example:
        >>> point("1970-01-01 00:00:01", "test", numeric=False)
        1000000.0
    """
    try:
        if numeric:
            return float(value)  # type: ignore[arg-type]
        if isinstance(value, bool | int | float):
            raise ValueError
        return float(moment(value).astype(np.int64))
    except (TypeError, ValueError):
        allowed = "a number, as the times are" if numeric else "a moment such as '2026-01-31 13:05'"
        raise InputError(f"{setting}: {allowed}; got {value!r}") from None
