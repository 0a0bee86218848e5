"""Sums over intervals that lose nothing, however much the summands differ in size.

A sum over an interval is a difference of two running sums, and a difference of large numbers has
forgotten what the small ones were: after a weight of 1e16 has come and gone, a running sum in
float64 says 0 where 1 is held. So numbers are first cut into digits of a few bits each. A digit is
a small whole number, sums of them are whole numbers below 2^53, and those float64 adds and
subtracts without any error. What is left to round is the last step, which puts a sum's digits
together, from the largest to the smallest, all of one sign.

The cost is one pass for each digit: three for numbers of about the same size.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headwater.randomness import Floats

Places = NDArray[np.integer]
LARGEST_RATIO = 1e300
"""Numbers may differ by this factor and no more: beyond it, float64 cannot hold their ratio."""


def covering(begin: Places, end: Places, values: Floats, places: int) -> Floats:
    """Sum, at every place, the values whose interval covers it.

    Args:
        begin: the first place of each interval.
        end: the first place after it.
        values: one number ≥ 0 for each interval.
        places: how many places there are, counted from 0.

    Returns:
        One sum for each place, exact to rounding.

    Example:
        >>> covering(np.array([0, 1]), np.array([1, 3]), np.array([1e16, 1.0]), places=3)
        array([1.e+16, 1.e+00, 1.e+00])
    """
    sums = np.zeros(places)
    for digit, unit in _digits(values):
        comes = np.bincount(begin, digit, places + 1)
        goes = np.bincount(end, digit, places + 1)
        # Whole numbers below 2^53 throughout: neither the difference nor the running sum rounds.
        sums += unit * np.cumsum(comes - goes)[:places]
    return sums


def within(begin: Places, end: Places, values: Floats) -> Floats:
    """Sum, for every interval, the values at the places that it covers.

    Args:
        begin: the first place of each interval.
        end: the first place after it.
        values: one number ≥ 0 for each place.

    Returns:
        One sum for each interval, exact to rounding.

    Example:
        >>> within(np.array([0, 1]), np.array([2, 3]), np.array([1e16, 1.0, 2.0]))
        array([1.e+16, 3.e+00])
    """
    sums = np.zeros(len(begin))
    for digit, unit in _digits(values):
        running = np.concatenate([[0.0], np.cumsum(digit)])  # exact, and so is its difference
        sums += unit * (running[end] - running[begin])
    return sums


def _digits(values: Floats) -> Iterator[tuple[Floats, float]]:
    """Cut numbers into digits, the highest first: values = Σ digit · unit, exactly.

    A digit has so few bits that the sum of as many digits as there are values is below 2^53.
    """
    bits = 52 - len(values).bit_length()
    exponent = int(np.frexp(values.max(initial=0.0))[1])
    rest = np.ldexp(values, -exponent)
    while rest.any():
        # Multiplying by a power of two, taking the whole part and subtracting it are all exact.
        rest = np.ldexp(rest, bits)
        exponent -= bits
        digit = np.floor(rest)
        rest -= digit
        yield digit, float(np.ldexp(1.0, exponent))
