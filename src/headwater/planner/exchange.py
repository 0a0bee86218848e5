"""One norm against one distance: how far to move from a target when moving has a price.

The problem, over the simplex, for a target α, weights w_m ≥ 0 and a price k ≥ 0:

    minimise  N(p) + k·‖α − p‖₁,    N² = Σ p_m²/w_m,    p_m = 0 where w_m = 0.

**Optimality.** p_m/(w_m N) + k·s_m = ν with s_m = ±1 above and below α_m and anything between at
α_m. So with the levels low = N(ν − k) and high = N(ν + k)

    p_m = max(low·w_m, min(α_m, high·w_m)):

clients with α_m/w_m below the low level are filled up to it, those above the high level give down
to it, and all others stick at α_m. In the order of α_m/w_m the receivers come first, then those
that stick, then the givers.

**One scalar.** Let δ be the importance that changes hands. It fixes both levels, the low one rising
and the high one falling with δ. The least norm N(δ) that is reached with it is convex in δ, as a
partial minimum of a convex function, and N'(δ) = −(high − low)/N. So (high − low)/N decreases with
δ and the optimum is where it reaches 2k, or δ as small as it can be. Bisection over the ladder's
steps finds who gives and who receives.

**Closed form between two steps.** With U, D the weights of receivers and givers, W = U + D, m the
importance that both had, and X = Σ α_m²/w_m of those that stick, Σ p_m = 1 and high − low = 2kN
give low = (m − 2kND)/W, high = (m + 2kNU)/W and N²·(1 − 4k²UD/W) = m²/W + X.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from headwater.planner.checks import Floats

EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Levels:
    """The levels between which clients stick at their target."""

    low: float
    high: float

    def importance(self, target: Floats, weight: Floats) -> Floats:
        """Importance of each client, max(low·w, min(α, high·w))."""
        p = np.minimum(target, self.high * weight)
        return np.maximum(p, self.low * weight, out=p)


class Ladder:
    """The clients in the order of α/w, and the sums that tell what an exchange of any size makes.

    Receivers are the lowest rungs, givers the highest. Sums over receivers therefore start at the
    bottom and sums over givers at the top, so that none is a small difference of large numbers.
    """

    def __init__(self, target: Floats, weight: Floats) -> None:
        used = weight > 0
        # Clients without weight must not count: they give all that they have, whatever it costs.
        self.forced = float(target[~used].sum())
        target, weight = target[used], weight[used]
        key = target / weight
        order = np.argsort(key)
        self.key, target, weight = key[order], target[order], weight[order]
        self.weight_below, self.weight_above = _below(weight), _above(weight)
        self.target_below, self.target_above = _below(target), _above(target) + self.forced
        self.square_below = _below(target * self.key)
        # Raising the low level from one rung to the next fills up everybody below by that much, so
        # what was received when it is at rung k is a running sum of step × weight; and what was
        # given, from above.
        steps = np.diff(self.key)
        self.received = _below(steps * self.weight_below[1:-1])
        self.given = _above(steps * self.weight_above[1:-1]) + self.forced

    def levels(self, moved: float) -> tuple[Levels, int, int]:
        """Levels when ``moved`` changes hands, how many receive, and the first rung that gives."""
        receivers = int(np.searchsorted(self.received, moved))
        givers = self.key.size - int(np.searchsorted(self.given[::-1], moved))
        # Nobody receives or gives: the levels touch the ends of the ladder.
        low, high = float(self.key[0]), float(self.key[-1])
        if receivers:
            low = float((self.target_below[receivers] + moved) / self.weight_below[receivers])
        if givers < self.key.size:
            high = float((self.target_above[givers] - moved) / self.weight_above[givers])
        return Levels(low, high), receivers, givers

    def enough(self, moved: float, price: float) -> bool:
        """Whether moving more than ``moved`` no longer pays, high − low ≤ 2k·N."""
        levels, receivers, givers = self.levels(moved)
        square = levels.low**2 * self.weight_below[receivers]
        square += levels.high**2 * self.weight_above[givers]
        # The one difference of running sums: rounding could make it negative where nobody sticks.
        square += max(self.square_below[givers] - self.square_below[receivers], 0.0)
        return levels.high - levels.low <= 2 * price * math.sqrt(square)

    def between(self, level: float, rung: int) -> float:
        """Keep a level between the two rungs that it must lie between, whatever rounding says."""
        below = float(self.key[rung - 1]) if rung else 0.0
        above = float(self.key[rung]) if rung < self.key.size else math.inf
        return min(max(level, below), above)

    def split(self, price: float) -> tuple[int, int]:
        """How many receive at the optimum, and the first rung that gives."""

        def enough(moved: float) -> bool:
            return self.enough(max(moved, self.forced), price)

        if enough(self.forced):
            return self.levels(self.forced)[1:]
        # As more is moved ``enough`` turns from no to yes once. ``received`` rises with the rungs,
        # ``given`` falls: two bisections find the rungs that the optimum lies between.
        rungs = range(self.key.size)
        receivers = bisect_left(rungs, True, key=lambda rung: enough(float(self.received[rung])))
        givers = bisect_left(rungs, True, key=lambda rung: not enough(float(self.given[rung])))
        return receivers, max(receivers, givers)


def settle(target: Floats, weight: Floats, price: float) -> Levels:
    """Find the levels that minimise √(Σ p_m²/w_m) + price·‖α − p‖₁.

    >>> settle(np.array([0.5, 0.5]), np.array([1.0, 3.0]), price=0.0)
    Levels(low=0.25, high=0.25)
    """
    if price == 0:
        return Levels(1 / float(weight.sum()), 1 / float(weight.sum()))
    ladder = Ladder(target, weight)
    receivers, givers = ladder.split(price)
    up, down = float(ladder.weight_below[receivers]), float(ladder.weight_above[givers])
    moving = float(ladder.target_below[receivers] + ladder.target_above[givers])
    stuck = float(ladder.square_below[givers] - ladder.square_below[receivers])
    if up + down == 0:  # everybody sticks, and rounding must not move anybody off the target
        high = float(ladder.key[-1]) * (1 + 2 * EPSILON)
        return Levels(max(high - 2 * price * math.sqrt(stuck), 0.0), high)
    gap = 2 * price * _norm(up, down, moving, stuck, price)
    # The level of the heavier group follows from the sum of all importances, where it loses nothing
    # to rounding; the formula gives that of the lighter one.
    if up >= down:
        high = ladder.between((moving + gap * up) / (up + down), givers)
        return Levels((moving - high * down) / up, high)
    low = ladder.between((moving - gap * down) / (up + down), receivers)
    return Levels(low, (moving - low * up) / down)


def giving_level(target: Floats, weight: Floats, price: float) -> float:
    """Find the high level where what is given away costs its price and nothing else, high = 2k·N.

    The clients here can only give, p_m = min(α_m, high·w_m); somebody without weight in the norm
    takes it.
    """
    ladder = Ladder(target, weight)
    # N² with the level at each rung: those below stick, those above give down to it.
    square = ladder.square_below[1:] + ladder.key**2 * ladder.weight_above[1:]
    givers = int(np.count_nonzero(ladder.key <= 2 * price * np.sqrt(square)))
    denominator = 1 - 4 * price**2 * float(ladder.weight_above[givers])
    return 2 * price * math.sqrt(float(ladder.square_below[givers]) / max(denominator, EPSILON))


def _norm(up: float, down: float, moving: float, stuck: float, price: float) -> float:
    """N between two steps, finite even where scales differ so much that the denominator is lost."""
    both = up + down
    denominator = 1 - 4 * price**2 * (up * (down / both))
    return math.sqrt((moving**2 / both + stuck) / max(denominator, EPSILON))


def _below(values: Floats) -> Floats:
    """Sums over all before each place, from the bottom."""
    return np.concatenate(([0.0], np.cumsum(values)))


def _above(values: Floats) -> Floats:
    """Sums from each place on, from the top."""
    return np.concatenate((np.cumsum(values[::-1])[::-1], [0.0]))
