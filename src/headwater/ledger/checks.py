"""What counts as a number in a setting, and in what a user's own rule answers."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a setting is a whole number, of Python or of NumPy.

    Example:
        >>> is_whole(np.int8(3)), is_whole(3.0), is_whole(True)
        (True, False, False)
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a setting is a real number that float64 can hold; infinity is one, NaN is not.

    Example:
        >>> is_number(np.float32(0.5)), is_number(10**400), is_number("0.5"), is_number(True)
        (True, False, False, False)
    """
    if not (is_whole(value) or isinstance(value, float | np.floating)):
        return False
    try:
        return float(value) == float(value)
    except OverflowError:
        return False


def whole_numbers(answer: object, length: int, who: str) -> NDArray[np.int64]:
    """Check that a rule answered with one whole number per sample.

    Args:
        answer: what the rule gave.
        length: how many samples there are.
        who: the rule's name and method, for the message.
    """
    if not isinstance(answer, np.ndarray) or answer.dtype.kind not in "iu":
        kind = answer.dtype if isinstance(answer, np.ndarray) else type(answer).__name__
        raise InputError(f"{who}: an array of whole numbers; got {kind}")
    if answer.shape != (length,):
        raise InputError(
            f"{who}: one number per sample, {length} of them; got an array of shape {answer.shape}"
        )
    return answer
