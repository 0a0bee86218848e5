"""What each client adds to the figures of a run whose clients' samples count alike.

Strategies that choose importances p_m give every sample of client m the same share of the run,
λ_i = p_m / (N_m · rounds in memory). Then a run's sums fall apart into one number per client, which
do not depend on p: they are here, counted as drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headwater.ledger.exact_sums import covering
from headwater.ledger.holdings import Counts, Holdings
from headwater.ledger.spells import Spells
from headwater.randomness import Floats


@dataclass(frozen=True)
class ClientTerms:
    """Noise, drawable samples and absence of each client.

    Let s_i = 1/(N_m · rounds in memory) be sample i's share of its client in each round in which it
    is held, n(t) the number of samples that the client holds, and r(t) = (n/K − 1)/E how much
    mini-batches add (:meth:`headwater.ledger.drawing.Drawing.redraws`). Participation is not
    counted: a client's chance to take part depends on the importances that are to be chosen.

    Attributes:
        holdings: who holds what when, and how much of it a round draws.
    """

    holdings: Holdings

    @cached_property
    def _samples(self) -> Counts:
        """The numbers of all samples that are ever held."""
        return np.flatnonzero(self.holdings.rounds_held > 0)

    @cached_property
    def _share(self) -> Floats:
        """s_i of these samples."""
        rounds = self.holdings.rounds_held[self._samples]
        return 1 / (self.holdings.collected[self.holdings.client[self._samples]] * rounds)

    @cached_property
    def _spells(self) -> Spells:
        found = self._samples
        h = self.holdings
        return Spells.of(h.client[found], h.enter[found], h.leave[found], h.rounds)

    @cached_property
    def _rounds(self) -> Floats:
        """How many rounds each spell has."""
        return (self._spells.end - self._spells.begin).astype(np.float64)

    @cached_property
    def _redraws(self) -> Floats | None:
        """The factor r of each spell; None if all batches are full."""
        size = self.holdings.drawing.batch_size
        # A batch that no client's samples ever exceed is full, whatever is held when.
        if size is None or self.holdings.collected.max() <= size:
            return None
        return self.holdings.drawing.redraws(self._spells.held)

    def noise(self, round_shares: Floats | None = None) -> Floats:
        """Give v_m: how much a client's round differs from its run, in units of σ0².

        v_m = Σ_t 1/q(t) Σ_i s_i² (1 + r(t)) − 1/N_m, so that Σ_m p_m² v_m is the variability of a
        run whose rounds count q(t). It is 0 for a historical client with full batches, and
        1/b − 1/N for a fresh client that keeps its b newest samples, all of which it uses.

        Args:
            round_shares: q(t); None: every round counts the same.
        """
        h = self.holdings
        if round_shares is None:
            # 1/q(t) is T in every round: no sum over rounds, and no spells, are needed.
            inverse = h.rounds * h.rounds_held[self._samples].astype(np.float64)
        else:
            inverse = self._spells.over_spells(self._spells.over_rounds(_inverse(round_shares)))
        inverse = inverse + self._redrawn(round_shares)
        squares = self._per_client(np.square(self._share) * inverse)
        inverse_count = 1 / np.maximum(h.collected, 1)
        noise = squares - inverse_count
        # What never changes has no noise, and rounding must not give it any.
        return np.where(noise > 1e-12 * squares, noise, 0.0)

    def round_shares(self, importance: Floats) -> Floats:
        """Give q(t), how much each round counts if clients count p_m over the run.

        Args:
            importance: p_m, one number per client.
        """
        h = self.holdings
        found = self._samples
        weights = importance[h.client[found]] * self._share
        sums = covering(h.enter[found] - 1, h.leave[found] - 1, weights, h.rounds)
        return sums / sums.sum()

    @cached_property
    def drawable(self) -> Floats:
        """N_m as drawn: 1 / E Σ_i p̂_i² of a client by itself; N_m if all batches are full.

        1/N_m(drawn) = 1/N_m + Σ_t Σ_i s_i² r(t): a client that visits once and draws few of its
        many samples brings few.
        """
        h = self.holdings
        if self._redraws is None:
            return h.collected.astype(np.float64)
        # Draws of different rounds are independent: their variances add, round by round.
        redrawn = self._spells.over_spells(self._redraws * self._rounds)
        added = self._per_client(np.square(self._share) * redrawn)
        # N/(1 + N·added) and not 1/(1/N + added), so that clients without samples give 0.
        return h.collected / (1 + h.collected * added)

    @cached_property
    def absence(self) -> Floats:
        """T Σ_t (Σ_i s_i)² − 1, the relative variance over the rounds of how much a client counts.

        It is 1/f − 1 for a client that is there in a fraction f of the rounds and counts the same
        in each of them; 0 if it is always there.
        """
        # How much the client counts is constant within a spell, and 0 where it holds nothing.
        weight = self._spells.sum_of(self._share)
        squares = np.bincount(self._spells.client, weight**2 * self._rounds, self.holdings.clients)
        return np.maximum(self.holdings.rounds * squares - (self.holdings.collected > 0), 0.0)

    def _redrawn(self, round_shares: Floats | None) -> Floats | float:
        """Σ r(t)/q(t) over the rounds in which each sample is held."""
        if self._redraws is None:
            return 0.0
        if round_shares is None:
            inverse = self.holdings.rounds * self._rounds
        else:
            inverse = self._spells.over_rounds(_inverse(round_shares))
        return self._spells.over_spells(self._redraws * inverse)

    def _per_client(self, values: Floats) -> Floats:
        clients = self.holdings.client[self._samples]
        return np.asarray(np.bincount(clients, values, self.holdings.clients), np.float64)


def _inverse(round_shares: Floats) -> Floats:
    """1/q(t), and 0 for rounds that do not count."""
    return np.divide(1.0, round_shares, out=np.zeros(len(round_shares)), where=round_shares > 0)


def client_noise(holdings: Holdings, round_shares: Floats | None = None) -> Floats:
    """Give v_m, how much a client's round differs from its run: :meth:`ClientTerms.noise`.

    Example:
        >>> from headwater import Constant, Fifo, Keep, Once, unroll
        >>> client_noise(unroll([5, 40], [Once(), Constant(4)], [Keep(), Fifo(4)], rounds=10))
        array([0.   , 0.225])
    """
    return ClientTerms(holdings).noise(round_shares)
