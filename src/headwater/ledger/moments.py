"""Second moments of shares: how unequal, and how random, samples and clients count in a round.

Let a_i(t) be the share that sample i has in what round t learns from, and u_m(t) = Σ_i a_i(t) that
of client m. If a round uses all that is held, a_i(t) is w_i(t), the sample's weight over the sum of
all weights of the round. If only some clients take part and each draws mini-batches, a_i(t) is
random with that mean (:mod:`headwater.ledger.drawing`):

    E a_i(t)²  = w_i(t)² · (1 + r_m(t)) / π_m(t),        r = (n/K − 1)/E
    E u_m(t)²  = p_m(t)² · (1 + r_m(t) · n/(n − 1) · (Σ_j s_j² − 1/n)) / π_m(t)

π_m(t) is the chance to take part, and s_j = λ_j/Σλ are the shares within the client's memory of n
samples. *The first line:* a sample is in each of E batches with chance K/n, independently, and then
counts n/K times; a client that takes part counts 1/π times. *The second:* with equal weights a
batch always counts as much as the memory it is drawn from; with unequal ones it is n/K times the
sum of K numbers s_j, drawn without replacement, whose variance is the textbook's for finite
populations.

Two ways to add them up. :class:`ByRounds` goes through the rounds and is the specification;
:class:`BySpells` takes one pass over the samples, and is for weights that do not change and rounds
in which everybody takes part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from headwater.ledger.drawing import Drawing, inclusion
from headwater.ledger.exact_sums import within
from headwater.ledger.holdings import Counts, Holdings
from headwater.ledger.rounds import Round
from headwater.ledger.spells import Spells
from headwater.randomness import Floats


class Moments(Protocol):
    """Second moments, averaged over the rounds of a run."""

    @property
    def samples(self) -> float:
        """Σ_t q(t) Σ_i E a_i(t)², the mean inverse effective number of samples of a round."""
        ...

    @property
    def clients(self) -> float:
        """Σ_t q(t) Σ_m E u_m(t)², the same with clients in place of samples."""
        ...

    @property
    def redrawn(self) -> float:
        """Σ_t q(t)² Σ_i Var a_i(t): what the draws add to Σ_i p_i², as rounds are independent."""
        ...


@dataclass(frozen=True)
class BySpells:
    """Moments for weights that do not change while a sample is held.

    With q(t) = S(t)/S, S(t) the weight of round t and S that of the run, the sums over rounds and
    samples change places: Σ_t q(t) Σ_i w_i(t)² = Σ_i λ_i²/S · Σ_{t: i is held} 1/S(t). No weight is
    squared by itself, so that none is lost because its square is too small for float64.

    Attributes:
        holdings: who holds what when.
        weights: λ of every sample.
        round_weight: S(t).
        drawing: how much of what is held a round draws; everybody takes part.
    """

    holdings: Holdings
    weights: Floats
    round_weight: Floats
    drawing: Drawing

    @cached_property
    def _there(self) -> Counts:
        return np.flatnonzero((self.holdings.rounds_held > 0) & (self.weights > 0))

    @cached_property
    def _weights(self) -> Floats:
        return self.weights[self._there]

    @cached_property
    def _shares(self) -> Floats:
        """λ_i/S, the share of the run that a sample has in each round in which it is held."""
        return self._weights / self.round_weight.sum()

    @cached_property
    def _spells(self) -> Spells:
        found = self._there
        h = self.holdings
        return Spells.of(h.client[found], h.enter[found], h.leave[found], h.rounds)

    @cached_property
    def _inverse(self) -> Floats:
        """Σ 1/S(t) over the rounds of each spell."""
        return self._spells.over_rounds(1 / self.round_weight)

    @cached_property
    def _redraws(self) -> Floats | None:
        """The factor r of each spell; None if all batches are full."""
        size = self.drawing.batch_size
        # A batch that no client's samples ever exceed is full, whatever is held when.
        if size is None or self.holdings.collected.max() <= size:
            return None
        return self.drawing.redraws(self._spells.held)

    @cached_property
    def samples(self) -> float:
        """Σ_t q(t) Σ_i E a_i(t)²."""
        # As held; this needs no spells, whose sorting would be the dearest part.
        enter = self.holdings.enter[self._there]
        leave = self.holdings.leave[self._there]
        inverse = within(enter - 1, leave - 1, 1 / self.round_weight)
        if self._redraws is not None:
            # What mini-batches add depends on how many samples the client holds at the time.
            inverse = inverse + self._spells.over_spells(self._redraws * self._inverse)
        # In this order: a weight times its sum of 1/S(t) is at most a number of rounds.
        return float((self._shares * (self._weights * inverse)).sum())

    @cached_property
    def clients(self) -> float:
        """Σ_t q(t) Σ_m E u_m(t)²."""
        weight = self._spells.sum_of(self._weights)
        square = weight * self._inverse
        if self._redraws is not None:
            square = square * (1 + self._redraws * self._inequality(weight))
        return float((weight / self.round_weight.sum() * square).sum())

    @cached_property
    def redrawn(self) -> float:
        """Σ_t q(t)² Σ_i Var a_i(t)."""
        if self._redraws is None:
            return 0.0
        rounds = self._spells.end - self._spells.begin
        return float((self._shares**2 * self._spells.over_spells(self._redraws * rounds)).sum())

    def _inequality(self, weight: Floats) -> Floats:
        """n/(n − 1) · (Σ_j s_j² − 1/n) of each spell: 0 if the weights in memory are equal."""
        divisor = np.where(weight > 0, weight, 1.0)  # nothing is held in some spells
        # Divided twice, as the square of a small weight may be too small for float64.
        squares = self._spells.sum_of(np.square(self._weights)) / divisor / divisor
        return unequal(squares, self._spells.held)


@dataclass(frozen=True)
class ByRounds:
    """Moments of any ledger, one round after the other.

    Attributes:
        rounds: gives the rounds of the run; equal ones in a row share their arrays.
        round_shares: q(t).
        drawing: how much of what is held a round draws.
    """

    rounds: Callable[[], Iterator[Round]]
    round_shares: Floats
    drawing: Drawing

    @cached_property
    def _sums(self) -> Floats:
        """Σ_i E a_i², Σ_m E u_m² and Σ_i Var a_i, one row for each round."""
        rows: list[tuple[float, float, float]] = []
        before: Round | None = None
        for round in self.rounds():
            # Most rounds of a slow stream are those before them: they share arrays, and moments.
            same = before is not None and round.samples is before.samples
            rows.append(rows[-1] if same else _moments_of_round(round, self.drawing))
            before = round
        return np.array(rows)

    @property
    def samples(self) -> float:
        """Σ_t q(t) Σ_i E a_i(t)²."""
        return float(self.round_shares @ self._sums[:, 0])

    @property
    def clients(self) -> float:
        """Σ_t q(t) Σ_m E u_m(t)²."""
        return float(self.round_shares @ self._sums[:, 1])

    @property
    def redrawn(self) -> float:
        """Σ_t q(t)² Σ_i Var a_i(t)."""
        return float(np.square(self.round_shares) @ self._sums[:, 2])


def unequal(squares: Floats, held: Floats) -> Floats:
    """n/(n − 1) · (Σ_j s_j² − 1/n), how unequal n shares s_j are; 0 for equal ones and for one.

    Example:
        >>> unequal(np.array([0.25, 1.0, 1.0]), np.array([4.0, 2.0, 1.0]))
        array([0., 1., 0.])
    """
    count = np.maximum(held, 2)  # a single sample is always drawn: its case is answered by 0
    # Rounding may put equal shares a little below their least sum of squares, 1/n.
    return np.where(held > 1, np.maximum(squares - 1 / count, 0) * count / (count - 1), 0.0)


def _moments_of_round(round: Round, drawing: Drawing) -> tuple[float, float, float]:
    """Σ_i E a_i², Σ_m E u_m² and Σ_i Var a_i of one round."""
    held = np.diff(round.offsets).astype(np.float64)
    # Everybody takes part unless fewer are asked for than there are.
    chance = np.ones(len(held))
    number = drawing.participants(len(held))
    if number < len(held):
        chance = inclusion(round.shares, number)
    redraws = drawing.redraws(held)
    # All samples of a client share r and π, so that sums over its samples come first.
    squares = np.add.reduceat(np.square(round.weights), round.offsets[:-1])
    of_samples = np.square(round.shares) * squares
    of_clients = np.square(round.shares) * (1 + redraws * unequal(squares, held)) / chance
    drawn = of_samples * (1 + redraws) / chance
    return float(drawn.sum()), float(of_clients.sum()), float((drawn - of_samples).sum())
