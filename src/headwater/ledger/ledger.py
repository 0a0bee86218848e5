"""The ledger: who holds which sample, in which round, with what weight.

No features, no labels, no training. Everything the theory talks about is a sum over it (Section 4
and Theorem 4.1 of the paper):

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
from headwater.ledger.drawing import Drawing
from headwater.ledger.exact_sums import covering
from headwater.ledger.figures import Figures
from headwater.ledger.holdings import Counts, Holdings
from headwater.ledger.memory import Memory
from headwater.ledger.moments import ByRounds, BySpells, Moments
from headwater.ledger.rounds import Round
from headwater.ledger.strategies import Strategy, Weights
from headwater.ledger.unrolling import unroll
from headwater.ledger.walk import Walk
from headwater.ledger.weighing import usable, usable_in_round
from headwater.randomness import Floats


@dataclass(frozen=True)
class Ledger:
    """Holdings and weights, and all that follows from them.

    Attributes:
        holdings: who holds which sample when, and how much of it a round draws.
        weights: λ, one per sample, or a function of the round that gives them.

    Example:
        >>> from headwater import Constant, Fifo, Keep, Once, Uniform
        >>> arrivals, memory = [Once(), Constant(2)], [Keep(), Fifo(2)]
        >>> ledger = Ledger.of([2, 8], arrivals, memory, Uniform(), rounds=4)
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
        drawing: Drawing | None = None,
    ) -> Ledger:
        """Unroll arrivals and memory rules, and weigh by a strategy.

        Args:
            counts: how many samples each client will see if the run is long enough.
            arrivals: one process for all clients, or one for each.
            memory: one rule for all clients, or one for each.
            strategy: how much each sample counts.
            rounds: T, the number of rounds.
            seed: of arrivals and memory rules.
            drawing: local steps, batch size and participation, such as a ``LocalWork``; None: a
                round uses all that is held.
        """
        holdings = unroll(counts, arrivals, memory, rounds, seed)
        if drawing is not None:
            holdings = replace(holdings, drawing=drawing)
        return cls.weigh(holdings, strategy)

    @classmethod
    def weigh(cls, holdings: Holdings, strategy: Strategy) -> Ledger:
        """Weigh what is held, and check that the weights can be used."""
        if isinstance(strategy, type) or not isinstance(strategy, Strategy):
            raise InputError(f"strategy: Uniform(), Historical() or the like; got {strategy!r}")
        ledger = cls(
            holdings, usable(strategy.weights(holdings), holdings, type(strategy).__name__)
        )
        ledger._check_rounds()
        return ledger

    def __repr__(self) -> str:
        from headwater.ledger.view import ledger_text  # which needs ledgers itself

        return ledger_text(self)

    def _repr_html_(self) -> str:
        from headwater.ledger.view import ledger_html

        return ledger_html(self)

    def weights_at(self, round: int) -> Floats:
        """Give λ of every sample in this round, 0 if it is not in memory."""
        weights = self.weights
        if callable(weights):
            weights = usable_in_round(weights(round), self.holdings, round)
        return np.where(self.holdings.held(round), weights, 0.0)

    # ------------------------------------------------------------------ shares

    @cached_property
    def round_weight(self) -> Floats:
        """Σ_m Σ_j λ_m(t,j), the weight of each round; only ratios mean anything."""
        if callable(self.weights):
            every = range(1, self.holdings.rounds + 1)
            return np.array([self.weights_at(t).sum() for t in every])
        # Samples without weight would only make the digits of the exact sums longer.
        there = np.flatnonzero((self.holdings.rounds_held > 0) & (self.weights > 0))
        begin = self.holdings.enter[there] - 1
        end = self.holdings.leave[there] - 1
        return covering(begin, end, self.weights[there], self.holdings.rounds)

    @cached_property
    def round_shares(self) -> Floats:
        """q(t), one number per round; they sum to one."""
        return self.round_weight / self.round_weight.sum()

    @cached_property
    def sample_shares(self) -> Floats:
        """p_mi, one number per sample; they sum to one."""
        if callable(self.weights):
            weight = np.zeros(len(self.holdings.enter))
            for t in range(1, self.holdings.rounds + 1):
                weight += self.weights_at(t)
        else:
            # A weight that stays the same counts in every round that holds the sample.
            weight = self.weights * self.holdings.rounds_held
        return weight / weight.sum()

    @cached_property
    def importance(self) -> Floats:
        """p_m = Σ_i p_mi = Σ_t q(t) p_m(t), one number per client; they sum to one."""
        return self.holdings.per_client(self.sample_shares)

    @cached_property
    def client_shares(self) -> Floats:
        """p_m(t) as a dense T × M table; for very many clients take :meth:`round` instead."""
        table = np.empty((self.holdings.rounds, self.holdings.clients))
        for t in range(self.holdings.rounds):
            table[t] = self.holdings.per_client(self.weights_at(t + 1))
        table /= table.sum(axis=1, keepdims=True)
        return table

    @property
    def historical_share(self) -> float:
        """p_hist: the importance of all historical clients together."""
        return float(self.importance[self.holdings.historical].sum())

    # ------------------------------------------------------------------ what the theory talks about

    @property
    def effective_samples(self) -> float:
        """N_eff: how many samples of equal share would generalise as well, counted as held."""
        return self._as_held.effective_samples

    @property
    def variability(self) -> float:
        """Gradient variability between rounds, counted as held, in units of σ0².

        Σ_t q(t) Σ_i (w_i(t) − p_i)² = Σ_t q(t)/N_eff(t) − 1/N_eff with w_i(t) a sample's share of
        its round and σ0² the variance of per-sample gradients: exact for i.i.d. samples, any
        arrivals, any memory rule, any weights. Clients of different distributions add the part that
        :attr:`drift` measures, mini-batches and partial participation what :attr:`drawn` counts.
        """
        return self._as_held.variability

    @property
    def drift(self) -> float:
        """Σ_t q(t) Σ_m (p_m(t) − p_m)² (Lemma B.6), counted as held.

        It is 0 when every client's share is the same in every round.
        """
        return self._as_held.drift

    @cached_property
    def _as_held(self) -> Figures:
        return Figures(self.sample_shares, self.importance, self._moments(Drawing()))

    @cached_property
    def drawn(self) -> Figures:
        """Effective samples, variability and drift of what is drawn from the memories.

        Local steps, batch size and participation count here; without mini-batches, and if everybody
        takes part, the figures are those of what is held.
        """
        return Figures(self.sample_shares, self.importance, self._moments(self.holdings.drawing))

    def _moments(self, drawing: Drawing) -> Moments:
        # Who takes part depends on all shares of a round, so that rounds must be gone through.
        if callable(self.weights) or drawing.participation is not None:
            return ByRounds(self.rounds, self.round_shares, drawing)
        return BySpells(self.holdings, self.weights, self.round_weight, drawing)

    # ------------------------------------------------------------------ what the learner follows

    def round(self, number: int) -> Round:
        """What the clients hold in this round; it costs a look at all samples of the run."""
        weights = self.weights_at(number)
        samples = np.flatnonzero(weights)
        return Round.of(number, samples, weights[samples], self.holdings.offsets)

    def rounds(self, first: int = 1) -> Iterator[Round]:
        """The rounds from ``first`` to the last; equal ones in a row share their arrays.

        With weights that do not change, a round costs what is held in it, however long the run is.
        """
        if callable(self.weights):
            yield from (self.round(number) for number in range(first, self.holdings.rounds + 1))
        elif first <= self.holdings.rounds:
            yield from self._steady_rounds(first, self.weights)

    def _steady_rounds(self, first: int, weights: Floats) -> Iterator[Round]:
        before: Counts | None = None
        for number, samples in enumerate(self._walk.held(first), first):
            if before is None or samples is not before:
                current = Round.of(number, samples, weights[samples], self.holdings.offsets)
            else:
                current = replace(current, number=number)
            before = samples
            yield current

    @cached_property
    def _walk(self) -> Walk:
        assert not callable(self.weights)
        return Walk(self.holdings, self.weights)

    def _check_rounds(self) -> None:
        empty = self.round_weight <= 0
        if empty.any():
            raise InputError(
                f"all weights are zero in round {int(np.argmax(empty)) + 1} ({int(empty.sum())} "
                f"such rounds of {self.holdings.rounds}): nobody who counts holds a sample then; "
                "choose another strategy, fewer rounds, or clients whose samples are there in "
                "every round"
            )
