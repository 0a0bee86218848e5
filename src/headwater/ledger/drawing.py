"""What a round draws from the memories: local steps, batch size, participation.

The paper's theorem assumes that a round uses all that is held. With mini-batches a client draws
K of its n samples in each of E local steps, and only some of the clients may take part. Seen from
the sample, its share of the round becomes random: the mean is what the weights say, the second
moment grows by the factor that :meth:`Drawing.redraws` and :func:`inclusion` give.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from headwater.errors import InputError
from headwater.ledger.checks import is_number, is_whole
from headwater.randomness import Floats


@dataclass(frozen=True)
class Drawing:
    """How much of what is held a round draws. By default all of it.

    Attributes:
        local_steps: E, gradient steps of a client in a round.
        batch_size: K, samples in a step, drawn without replacement; None: the whole memory.
        participation: how many clients take part in a round (a whole number), or which fraction of
            those that hold a sample (a float up to 1.0); None: all.
        seed: of the run.
    """

    local_steps: int = 1
    batch_size: int | None = None
    participation: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _check_whole("local_steps", self.local_steps)
        if self.batch_size is not None:
            _check_whole("batch_size", self.batch_size)
        if self.participation is not None and not _some_clients(self.participation):
            raise InputError(
                "participation: a whole number of clients, at least 1, or a fraction above 0 and "
                f"up to 1.0; got {self.participation!r}"
            )

    def participants(self, clients: int) -> int:
        """How many of so many clients take part.

        A fraction is taken as the decimal number that was written and rounded up to whole clients:
        in floating point 0.07 · 100 is above 7, and a float32 of 0.2 is not 0.2.

        Example:
            >>> Drawing(participation=0.07).participants(100)
            7
            >>> Drawing(participation=np.float32(0.2)).participants(11)
            3
        """
        if self.participation is None:
            return clients
        if isinstance(self.participation, float | np.floating) and self.participation <= 1:
            return math.ceil(Fraction(str(self.participation)) * clients)
        return min(int(self.participation), clients)

    def redraws(self, held: Floats) -> Floats:
        """Give the variance of a sample's number of draws in a round, relative to its mean squared.

        With n samples held and K = min(batch size, n) of them drawn in each of E steps, a sample is
        drawn a number of times that has mean E·K/n, and the relative variance (n/K − 1)/E. It is 0
        for full batches.

        Args:
            held: n, how many samples of positive weight a client holds.

        Example:
            >>> Drawing(local_steps=2, batch_size=5).redraws(np.array([3.0, 5.0, 20.0]))
            array([0. , 0. , 1.5])
        """
        if self.batch_size is None:
            return np.zeros(len(held))
        # Memories smaller than the batch are used whole: K = n, and nothing is random.
        return np.maximum(held / self.batch_size - 1, 0.0) / self.local_steps


def inclusion(shares: Floats, number: int) -> Floats:
    """Give the chance of each client to take part: min(1, c·share), c such that ``number`` come.

    Args:
        shares: p_m(t) of the clients, above 0.
        number: how many shall take part, fewer than there are.

    Example:
        >>> inclusion(np.array([0.7, 0.2, 0.1]), 2)
        array([1.        , 0.66666667, 0.33333333])
    """
    certain = np.zeros(len(shares), bool)
    while True:
        # Whoever would get a chance above one is certain; the others divide what remains, which may
        # make more of them certain.
        factor = (number - certain.sum()) / shares[~certain].sum()
        grown = certain | (factor * shares >= 1)
        if (grown == certain).all() or grown.sum() >= number:
            return np.where(certain, 1.0, np.minimum(1.0, factor * shares))
        certain = grown


def _some_clients(participation: object) -> bool:
    if not is_number(participation):
        return False
    return 0 < participation < 1 or (participation >= 1 and participation % 1 == 0)


def _check_whole(name: str, value: object) -> None:
    if not is_whole(value) or not 1 <= value < 2**53:
        raise InputError(f"{name}: a whole number, at least 1 and below 2^53; got {value!r}")
