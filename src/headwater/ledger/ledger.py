"""The ledger: who holds which sample, in which round, with what weight. No features, no labels, no
training.

Everything the theory talks about is a sum over it (Section 4 and Theorem 4.1 of the paper):

    p_m(t) = Σ_j λ_m(t,j) / Σ_m' Σ_j λ_m'(t,j)        a client's share of a round
    q(t)   = Σ_m Σ_j λ_m(t,j) / Σ_s Σ_m Σ_j λ_m(s,j)  a round's share of the run
    p_mi   = Σ_t λ_m(t,i) / Σ_s Σ_m Σ_j λ_m(s,j)      a sample's share of the run
    N_eff  = 1 / Σ_mi p_mi²                           the effective number of samples
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from headwater.errors import InputError
from headwater.ledger.arrivals import Arrivals
from headwater.ledger.holdings import Counts, Holdings, unroll
from headwater.ledger.memory import Memory
from headwater.ledger.strategies import Strategy, Weights
from headwater.randomness import Floats


@dataclass(frozen=True)
class Round:
    """What is in the memories in one round, for the clients that count.

    Attributes:
        number: t, from 1.
        clients: the clients with a sample of positive weight, in ascending order.
        shares: p_m(t) of these clients; they sum to one.
        offsets: entries offsets[k] … offsets[k + 1] − 1 of the next two arrays belong to
            clients[k].
        samples: sample numbers.
        weights: λ_m(t, j) over the client's sum of them; they sum to one for every client.
    """

    number: int
    clients: Counts
    shares: Floats
    offsets: Counts
    samples: Counts
    weights: Floats


@dataclass(frozen=True)
class Ledger:
    """Holdings and weights, and all that follows from them.

    >>> from headwater import Constant, Fifo, Keep, Once, Uniform
    >>> ledger = Ledger.of([2, 8], [Once(), Constant(2)], [Keep(), Fifo(2)], Uniform(), rounds=4)
    >>> ledger.importance
    array([0.2, 0.8])
    >>> round(ledger.effective_samples, 6)
    10.0
    >>> ledger.round(2).samples
    array([0, 1, 4, 5])
    """

    holdings: Holdings
    weights: Weights

    @classmethod
    def of(
        cls,
        counts: Sequence[int] | Counts,
        arrivals: Arrivals | Sequence[Arrivals],
        memory: Memory | Sequence[Memory],
        strategy: Strategy,
        rounds: int,
        seed: int = 0,
    ) -> Ledger:
        """Unroll arrivals and memory rules, and weigh by a strategy."""
        return cls.weigh(unroll(counts, arrivals, memory, rounds, seed), strategy)

    @classmethod
    def weigh(cls, holdings: Holdings, strategy: Strategy) -> Ledger:
        """Weights for who holds what; checks that they can be used."""
        if isinstance(strategy, type) or not isinstance(strategy, Strategy):
            raise InputError(f"strategy: Uniform(), Historical() or the like; got {strategy!r}")
        weights = strategy.weights(holdings)
        if not callable(weights):
            _check_weights(weights, holdings)
        ledger = cls(holdings, weights)
        ledger._check_rounds()
        return ledger

    def weights_at(self, round: int) -> Floats:
        """λ of every sample in this round, 0 if it is not in memory."""
        weights = self.weights
        if callable(weights):
            weights = weights(round)
            _check_weights(weights, self.holdings, f" in round {round}")
        return np.where(self.holdings.held(round), weights, 0.0)

    # ------------------------------------------------------------------ what the theory talks about

    @cached_property
    def _sums(self) -> _Sums:
        return (
            _varying_sums(self)
            if callable(self.weights)
            else _steady_sums(self.holdings, self.weights)
        )

    @cached_property
    def round_shares(self) -> Floats:
        """q(t), T numbers that sum to one."""
        return _normalised(self._sums.round_weight)

    @cached_property
    def sample_shares(self) -> Floats:
        """p_mi, one number a sample; they sum to one."""
        return _normalised(self._sums.sample_weight)

    @cached_property
    def importance(self) -> Floats:
        """p_m = Σ_i p_mi = Σ_t q(t) p_m(t), M numbers that sum to one."""
        return self.holdings.per_client(self.sample_shares)

    @cached_property
    def client_shares(self) -> Floats:
        """p_m(t) as a dense T × M table; for very many clients take :meth:`round` by round
        instead."""
        table = np.empty((self.holdings.rounds, self.holdings.clients))
        for t in range(self.holdings.rounds):
            table[t] = self.holdings.per_client(self.weights_at(t + 1))
        table /= table.sum(axis=1, keepdims=True)
        return table

    @cached_property
    def effective_samples(self) -> float:
        """N_eff: how many samples of equal share would generalise as well."""
        return float(1.0 / np.square(self.sample_shares).sum())

    @cached_property
    def variability(self) -> float:
        """Gradient variability between rounds, in units of the per-sample gradient variance σ0².

        Σ_t q(t) Σ_i (w_i(t) − p_i)² = Σ_t q(t)/N_eff(t) − 1/N_eff with w_i(t) a sample's share of
        its round: exact for i.i.d. samples, any arrivals, any memory rule, any weights. Clients of
        different distributions add the part that :attr:`drift` measures.
        """
        inverse = self._sums.round_square / np.square(self._sums.round_weight)
        return _difference(float(self.round_shares @ inverse), 1.0 / self.effective_samples)

    @cached_property
    def drift(self) -> float:
        """Σ_t q(t) Σ_m (p_m(t) − p_m)²: 0 when clients' shares are the same in every round (Lemma
        B.6's sum)."""
        weights = self.weights
        squares = (
            _varying_client_squares(self)
            if callable(weights)
            else _client_squares(self.holdings, weights)
        )
        squares = squares / np.square(self._sums.round_weight)
        return _difference(
            float(self.round_shares @ squares), float(np.square(self.importance).sum())
        )

    @property
    def historical_share(self) -> float:
        """p_hist: the importance of all historical clients together."""
        return float(self.importance[self.holdings.historical].sum())

    # ------------------------------------------------------------------ what the learner follows

    def round(self, number: int) -> Round:
        """What the clients hold in this round."""
        weights = self.weights_at(number)
        samples = np.flatnonzero(weights)
        ends = np.searchsorted(samples, self.holdings.offsets)
        counts = np.diff(ends)
        clients = np.flatnonzero(counts)
        offsets = np.concatenate([[0], np.cumsum(counts[clients])])
        weights = weights[samples]
        totals = np.add.reduceat(weights, offsets[:-1])
        shares = totals / totals.sum()
        return Round(
            number, clients, shares, offsets, samples, weights / np.repeat(totals, counts[clients])
        )

    def rounds(self, first: int = 1) -> Iterator[Round]:
        """The rounds from ``first`` to the last; a round equal to the one before shares its
        arrays."""
        current: Round | None = None
        for number in range(first, self.holdings.rounds + 1):
            if current is None or callable(self.weights) or self.holdings.changes[number]:
                current = self.round(number)
            else:
                current = replace(current, number=number)
            yield current

    def _check_rounds(self) -> None:
        empty = self._sums.round_weight <= 0
        if empty.any():
            raise InputError(
                f"all weights are zero in round {int(np.argmax(empty)) + 1} ({int(empty.sum())} "
                "such rounds of "
                f"{self.holdings.rounds}): nobody who counts holds a sample then; choose another "
                "strategy, "
                "fewer rounds, or clients whose samples are there in every round"
            )


@dataclass(frozen=True)
class _Sums:
    """Unnormalised sums of a ledger; the first two have one entry a round."""

    round_weight: Floats  # Σ λ
    round_square: Floats  # Σ λ²
    sample_weight: Floats  # Σ_t λ, one entry a sample


def _steady_sums(holdings: Holdings, weights: Floats) -> _Sums:
    """Weights that do not change while held: one pass over the samples, whatever the number of
    rounds."""
    there = (holdings.rounds_held > 0) & (weights > 0)
    w, enter, leave = weights[there], holdings.enter[there], holdings.leave[there]
    size = holdings.rounds + 2

    def by_round(values: Floats) -> Floats:
        steps = np.bincount(enter, values, size) - np.bincount(leave, values, size)
        return np.cumsum(steps, dtype=np.longdouble)[1:-1].astype(np.float64)

    somebody = (
        by_round(np.ones_like(w)) > 0
    )  # whole numbers: exact, where sums of weights leave dust
    return _Sums(by_round(w) * somebody, by_round(w * w), weights * holdings.rounds_held)


def _varying_sums(ledger: Ledger) -> _Sums:
    """Weights that change from round to round: add up round after round."""
    holdings = ledger.holdings
    rounds = np.empty((2, holdings.rounds))
    per_sample = np.zeros(len(holdings.enter))
    for t in range(holdings.rounds):
        w = ledger.weights_at(t + 1)
        rounds[:, t] = w.sum(), np.square(w).sum()
        per_sample += w
    return _Sums(rounds[0], rounds[1], per_sample)


def _client_squares(holdings: Holdings, weights: Floats) -> Floats:
    """Σ_m (Σ_j λ)² in each round, from the moments at which a memory changes."""
    size = holdings.rounds + 2
    place = np.concatenate([holdings.enter, holdings.leave]) + np.tile(
        holdings.client.astype(np.int64) * size, 2
    )
    places, where = np.unique(
        place, return_inverse=True
    )  # (client, round) of each change, in order
    change = np.bincount(where, np.concatenate([weights, -weights]), len(places))
    after = np.cumsum(
        change, dtype=np.longdouble
    )  # all that enters leaves: each client starts again at zero
    steps = np.bincount(
        places % size, (np.square(after) - np.square(after - change)).astype(np.float64), size
    )
    return np.asarray(np.cumsum(steps)[1:-1], np.float64)


def _varying_client_squares(ledger: Ledger) -> Floats:
    """The same for weights that change from round to round."""
    every = range(1, ledger.holdings.rounds + 1)
    return np.array(
        [np.square(ledger.holdings.per_client(ledger.weights_at(t))).sum() for t in every]
    )


def _difference(larger: float, smaller: float) -> float:
    """A difference that is zero when it is only rounding: what never changes has no variability at
    all."""
    return larger - smaller if larger > smaller * (1 + 1e-12) else 0.0


def _normalised(values: Floats) -> Floats:
    return np.asarray(values / values.sum(), np.float64)


def _check_weights(weights: Floats, holdings: Holdings, where: str = "") -> None:
    if weights.shape != holdings.enter.shape:
        raise InputError(
            f"weights{where}: {len(holdings.enter)} samples, but an array of shape {weights.shape}"
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        i = int(np.argmax(~np.isfinite(weights) | (weights < 0)))
        raise InputError(
            f"weights{where}: finite numbers ≥ 0; sample {i} of client {holdings.client[i]} has "
            f"{weights[i]}"
        )
