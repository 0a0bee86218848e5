"""A round's work: which client takes which samples with which coefficient in which local step.

Lines 2, 8 and 9 of Algorithm 1, for all clients at once and still without a feature or a label: the
server's choice of clients, and the mini-batches ξ_m(t, e) of min(K, |memory|) samples without
replacement. What is left for the learner is to compute gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.ledger.drawing import Drawing, inclusion
from headwater.ledger.holdings import Counts
from headwater.ledger.rounds import Round, Rounds
from headwater.randomness import Floats, Purpose, below, uniform


@dataclass(frozen=True)
class Orders:
    """What each client does in one round.

    Attributes:
        number: the round t.
        clients: who takes part.
        shares: what each client's move θ_m − θ is multiplied with when the moves are added.
        offsets: columns offsets[k] … offsets[k + 1] − 1 of the next two tables belong to
            clients[k].
        samples: sample numbers, one row for each of the E local steps.
        coefficients: |I|/|ξ| · λ_j / Σ λ: the weighted sum of the samples' gradients is then an
            unbiased estimate of the gradient of the client's weighted objective.
    """

    number: int
    clients: Counts
    shares: Floats
    offsets: Counts
    samples: Counts
    coefficients: Floats

    def repeats(self, other: Orders) -> bool:
        """Is this the other round's work again, down to the same arrays?

        Rounds in which nothing changes share their arrays (:meth:`LocalWork.follow`), which nobody
        writes to; so an engine may keep what it has worked out from them.
        """
        return self.samples is other.samples and self.shares is other.shares

    def part(self, first: int, last: int) -> Orders:
        """The work of clients first … last − 1 (places in ``clients``, not client numbers)."""
        begin = self.offsets[first]
        columns = slice(begin, self.offsets[last])
        return Orders(
            self.number,
            self.clients[first:last],
            self.shares[first:last],
            self.offsets[first : last + 1] - begin,
            self.samples[:, columns],
            self.coefficients[:, columns],
        )


@dataclass(frozen=True)
class LocalWork(Drawing):
    """How rounds become work; its settings are those of :class:`Drawing`."""

    def follow(self, ledger: Rounds, first: int = 1) -> Iterator[Orders]:
        """The work of each round from ``first`` on; equal rounds share their arrays."""
        before: Round | None = None
        orders: Orders | None = None
        for round in ledger.rounds(first):
            same = before is not None and round.samples is before.samples
            if orders is not None and same and not self._draws(round):
                orders = replace(orders, number=round.number)
            else:
                orders = self.orders(round)
            before = round
            yield orders

    def orders(self, round: Round) -> Orders:
        """The work of one round."""
        if self.participation is not None:
            round = select(round, self.participation, self.seed)
        sizes = np.diff(round.offsets)
        if self.batch_size is not None and sizes.max() > self.batch_size:
            return _batches(round, sizes, self.batch_size, self.local_steps, self.seed)
        samples = _repeat(round.samples, self.local_steps)
        weights = _repeat(round.weights, self.local_steps)
        return Orders(round.number, round.clients, round.shares, round.offsets, samples, weights)

    def _draws(self, round: Round) -> bool:
        """Is anything about this round's work random?"""
        small = self.batch_size is not None and int(np.diff(round.offsets).max()) > self.batch_size
        return small or self.participants(len(round.clients)) < len(round.clients)


def select(round: Round, participation: float, seed: int) -> Round:
    """Choose the clients of a round, with probability proportional to their shares.

    A client is there with probability π_m = min(1, c·p_m(t)), c such that the right number comes,
    and then counts p_m(t)/π_m. So the share of those who are not there is carried by those who are:
    the shares of a round still sum to one, *and* each client counts p_m(t) in expectation. Choosing
    clients uniformly gives only one of the two: either the expected shares are off, or a round's
    step is sometimes several times too long. Streams flow on at clients that are not chosen:
    memories do not wait for the server.

    Args:
        round: all clients that hold a sample.
        participation: how many of them take part, or which fraction, as in :class:`Drawing`.
        seed: of the run.
    """
    number = Drawing(participation=participation).participants(len(round.clients))
    if number >= len(round.clients):
        return round
    chance = inclusion(round.shares, number)
    chosen = _systematic(chance, round, seed)
    sizes = np.diff(round.offsets)
    kept = np.repeat(chosen, sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes[chosen])])
    shares = round.shares[chosen] / chance[chosen]
    shares /= shares.sum()  # one already, but for rounding
    clients = round.clients[chosen]
    return Round(round.number, clients, shares, offsets, round.samples[kept], round.weights[kept])


def _systematic(chance: Floats, round: Round, seed: int) -> NDArray[np.bool_]:
    """Systematic sampling: mark as many clients as the chances sum to, each with its chance.

    The chances lie on a line one after the other, and a comb with distance one between its teeth is
    laid over them at a random place. Whoever is under a tooth is chosen. The order on the line is
    new in every round, or the same clients would always come together.
    """
    order = np.argsort(
        uniform(seed, Purpose.PARTICIPATION, round.number, round.clients), kind="stable"
    )
    place = float(uniform(seed, Purpose.PARTICIPATION, round.number))
    # The chances sum to a whole number, their rounded sum perhaps to a bit less: the tolerance
    # keeps the last tooth from falling off the end of the line.
    teeth = np.floor(np.cumsum(chance[order]) + place + 1e-12)
    chosen = np.zeros(len(chance), bool)
    chosen[order] = np.diff(teeth, prepend=0.0) > 0
    return chosen


def without_replacement(sizes: Counts, draws: Floats) -> Counts:
    """For each size n, as many different numbers below n as there are draws on the last axis.

    Floyd's algorithm: every subset is equally likely, and the work grows with the batch, not with
    the memory.

    Example:
        >>> without_replacement(np.array([3]), np.array([[0.9, 0.1, 0.1]]))
        array([[0, 1, 2]])
    """
    taken = np.empty(draws.shape, np.int64)
    batch = draws.shape[-1]
    for step in range(batch):
        # Each step opens one more place, the top one, and draws among all that are open. If the
        # place drawn was taken before, the top one is taken: no step before could have it.
        top = sizes - batch + step
        pick = below(top + 1, draws[..., step])
        again = (taken[..., :step] == pick[..., None]).any(axis=-1)
        taken[..., step] = np.where(again, top, pick)
    return taken


def _batches(round: Round, sizes: Counts, batch_size: int, steps: int, seed: int) -> Orders:
    """Mini-batches where the memory is larger than the batch, the whole memory where it is not."""
    batch = np.minimum(sizes, batch_size)
    offsets = np.concatenate([[0], np.cumsum(batch)])
    # Everybody first takes the first samples of the memory: all of them where the batch is full.
    entries = np.empty((steps, offsets[-1]), np.int64)  # places in round.samples
    entries[:] = np.arange(offsets[-1]) + np.repeat(round.offsets[:-1] - offsets[:-1], batch)
    # Where the memory is larger than the batch, draws take their place.
    large = np.flatnonzero(sizes > batch_size)
    step = np.arange(steps)[:, None, None]
    place = np.arange(batch_size)
    draws = uniform(seed, Purpose.BATCH, round.number, round.clients[large, None], step, place)
    picks = round.offsets[large, None] + without_replacement(sizes[large], draws)
    entries[:, offsets[large, None] + place] = picks
    # |I|/|ξ|: what was drawn stands for all that is held.
    scale = np.repeat(sizes / batch, batch)
    samples = round.samples[entries]
    coefficients = round.weights[entries] * scale
    return Orders(round.number, round.clients, round.shares, offsets, samples, coefficients)


def _repeat(row: NDArray[Any], times: int) -> NDArray[Any]:
    """The same row for every step, without a copy."""
    return row[None] if times == 1 else np.broadcast_to(row, (times, len(row)))
