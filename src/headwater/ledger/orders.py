"""A round's work: which client takes which samples with which coefficient in which local step.

Lines 2 and 7–8 of Algorithm 1, for all clients at once and still without a feature or a label: the
server's choice of clients, and the mini-batches ξ_m(t, e) of min(K, |memory|) samples without
replacement. What is left for the learner is to compute gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.ledger.holdings import Counts
from headwater.ledger.ledger import Ledger, Round
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
        samples: sample numbers, a row for each of the E local steps.
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
        begin, end = self.offsets[first], self.offsets[last]
        columns = slice(begin, end)
        return Orders(
            self.number,
            self.clients[first:last],
            self.shares[first:last],
            self.offsets[first : last + 1] - begin,
            self.samples[:, columns],
            self.coefficients[:, columns],
        )


@dataclass(frozen=True)
class LocalWork:
    """How rounds become work.

    Attributes:
        local_steps: E.
        batch_size: K; None: the whole memory.
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
                "up to 1.0; "
                f"got {self.participation!r}"
            )

    def follow(self, ledger: Ledger, first: int = 1) -> Iterator[Orders]:
        """The work of each round from ``first`` on; equal rounds share their arrays."""
        before: Round | None = None
        orders: Orders | None = None
        for round in ledger.rounds(first):
            if (
                orders is None
                or before is None
                or round.samples is not before.samples
                or self._draws(round)
            ):
                orders = self.orders(round)
            else:
                orders = replace(orders, number=round.number)
            before = round
            yield orders

    def orders(self, round: Round) -> Orders:
        """The work of one round."""
        if self.participation is not None:
            round = select(round, self.participation, self.seed)
        sizes = np.diff(round.offsets)
        if self.batch_size is None or sizes.max() <= self.batch_size:
            samples, weights = (
                _repeat(table, self.local_steps) for table in (round.samples, round.weights)
            )
            return Orders(
                round.number, round.clients, round.shares, round.offsets, samples, weights
            )
        return _batches(round, sizes, self.batch_size, self.local_steps, self.seed)

    def _draws(self, round: Round) -> bool:
        """Is anything about this round's work random?"""
        small = self.batch_size is not None and int(np.diff(round.offsets).max()) > self.batch_size
        return small or self.participation is not None


def select(round: Round, participation: float, seed: int) -> Round:
    """Choose the clients of a round, with probability proportional to their shares.

    A client is there with probability π_m = min(1, c·p_m(t)), c such that the right number comes,
    and then counts p_m(t)/π_m. So the share of those who are not there is carried by those who are:
    the shares of a round still sum to one, *and* each client counts p_m(t) in expectation. Choosing
    clients uniformly gives only one of the two: either the expected shares are off, or a round's
    step is sometimes several times too long. Streams flow on at clients that are not chosen:
    memories do not wait for the server.
    """
    everyone = len(round.clients)
    fraction = isinstance(participation, float) and participation <= 1
    number = np.ceil(participation * everyone) if fraction else participation
    if number >= everyone:
        return round
    chance = inclusion(round.shares, int(number))
    # Systematic sampling: a comb with distance one laid over the chances, at a random place; over a
    # new order in every round, or the same clients would always come together.
    order = np.argsort(
        uniform(seed, Purpose.PARTICIPATION, round.number, round.clients), kind="stable"
    )
    place = float(uniform(seed, Purpose.PARTICIPATION, round.number))
    teeth = np.floor(np.cumsum(chance[order]) + place + 1e-12)  # the hair: sums are rounded
    chosen = np.zeros(everyone, bool)
    chosen[order] = np.diff(teeth, prepend=0.0) > 0
    sizes = np.diff(round.offsets)
    kept = np.repeat(chosen, sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes[chosen])])
    shares = round.shares[chosen] / chance[chosen]
    return Round(
        round.number,
        round.clients[chosen],
        shares / shares.sum(),
        offsets,
        round.samples[kept],
        round.weights[kept],
    )


def inclusion(shares: Floats, number: int) -> Floats:
    """min(1, c·share) with c such that the sum is ``number``.

    >>> inclusion(np.array([0.7, 0.2, 0.1]), 2)
    array([1.        , 0.66666667, 0.33333333])
    """
    certain = np.zeros(len(shares), bool)
    while True:
        factor = (number - certain.sum()) / shares[~certain].sum()
        grown = certain | (factor * shares >= 1)
        if (grown == certain).all() or grown.sum() >= number:
            return np.where(certain, 1.0, np.minimum(1.0, factor * shares))
        certain = grown


def without_replacement(sizes: Counts, draws: Floats) -> Counts:
    """For each size n, as many different numbers below n as there are draws on the last axis.

    Floyd's algorithm: every subset is equally likely, and the work grows with the batch, not with
    the memory.

    >>> without_replacement(np.array([3]), np.array([[0.9, 0.1, 0.1]]))
    array([[0, 1, 2]])
    """
    taken = np.empty(draws.shape, np.int64)
    batch = draws.shape[-1]
    for step in range(batch):
        top = sizes - batch + step
        pick = below(top + 1, draws[..., step])
        again = (taken[..., :step] == pick[..., None]).any(axis=-1)
        taken[..., step] = np.where(again, top, pick)
    return taken


def _batches(round: Round, sizes: Counts, batch_size: int, steps: int, seed: int) -> Orders:
    """Mini-batches where the memory is larger than the batch, the whole memory where it is not."""
    batch = np.minimum(sizes, batch_size)
    offsets = np.concatenate([[0], np.cumsum(batch)])
    large = np.flatnonzero(sizes > batch_size)
    step, place = np.arange(steps)[:, None, None], np.arange(batch_size)
    draws = uniform(seed, Purpose.BATCH, round.number, round.clients[large, None], step, place)
    picks = round.offsets[large, None] + without_replacement(sizes[large], draws)
    entries = np.empty((steps, offsets[-1]), np.int64)  # places in round.samples
    entries[:] = np.arange(offsets[-1]) + np.repeat(round.offsets[:-1] - offsets[:-1], batch)
    entries[:, offsets[large, None] + place] = picks
    scale = np.repeat(sizes / batch, batch)
    return Orders(
        round.number,
        round.clients,
        round.shares,
        offsets,
        round.samples[entries],
        round.weights[entries] * scale,
    )


def _repeat(row: NDArray[Any], times: int) -> NDArray[Any]:
    """The same row for every step, without a copy."""
    return row[None] if times == 1 else np.broadcast_to(row, (times, len(row)))


def _some_clients(participation: float) -> bool:
    number = isinstance(participation, int | float | np.number) and not isinstance(
        participation, bool
    )
    return number and (
        0 < participation < 1 or (participation >= 1 and float(participation).is_integer())
    )


def _check_whole(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name}: a whole number, at least 1; got {value!r}")
