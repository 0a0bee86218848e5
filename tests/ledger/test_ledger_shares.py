"""Shares of clients, rounds and samples against sums over sets, term by term as the paper writes
them."""

from __future__ import annotations

import math

import memory_by_hand as by_hand
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_federations import settings_of_a_ledger

import headwater as hw

CLOSE = {"rtol": 1e-9, "atol": 1e-12}


class Book:
    """All weights λ_m(t, j) in one dict, and the paper's formulas over it."""

    def __init__(self, held, counts, weight):
        self.held, self.rounds, self.clients = held, sorted(held), range(len(counts))
        self.numbers = [(m, i) for m in self.clients for i in range(counts[m])]
        self.weight = {
            (t, m, i): weight(t, m, i) for t in held for m in self.clients for i in held[t][m]
        }
        self.total = math.fsum(self.weight.values())

    def sum(self, round=None, client=None, sample=None):
        return math.fsum(
            w
            for (t, m, i), w in self.weight.items()
            if round in (None, t) and client in (None, m) and sample in (None, (m, i))
        )

    def usable(self):
        return all(self.sum(round=t) > 0 for t in self.rounds)

    def client_shares(self):
        return [[self.sum(t, m) / self.sum(t) for m in self.clients] for t in self.rounds]

    def round_shares(self):
        return [self.sum(t) / self.total for t in self.rounds]

    def sample_shares(self):
        return [self.sum(sample=number) / self.total for number in self.numbers]

    def effective_samples(self):
        return 1 / math.fsum(share**2 for share in self.sample_shares())

    def variability(self):
        """Σ_t q(t) Σ_i (w_i(t) − p_i)², the definition and not the short form."""
        shares = dict(zip(self.numbers, self.sample_shares(), strict=True))
        return math.fsum(
            q * (self.weight.get((t, *number), 0.0) / self.sum(t) - shares[number]) ** 2
            for t, q in zip(self.rounds, self.round_shares(), strict=True)
            for number in self.numbers
        )

    def drift(self):
        """Σ_t q(t) Σ_m (p_m(t) − p_m)²."""
        return math.fsum(
            q * (share - self.sum(client=m) / self.total) ** 2
            for q, row in zip(self.round_shares(), self.client_shares(), strict=True)
            for m, share in enumerate(row)
        )


def decaying(round, count):
    """Weights that change from round to round and from sample to sample."""
    return 0.7**round * (1 + (np.arange(count) * 7 + round) % 5)


def weight_by_hand(strategy, held, counts):
    """λ_m(t, i) of a built-in strategy, or None if it has nobody to give weight to."""
    everyone = range(len(counts))
    old = [by_hand.historical(held, m) for m in everyone]
    sizes = [len(by_hand.collected(held, m)) for m in everyone]

    def times(m, i):
        return len(by_hand.rounds_held(held, m, i))

    if isinstance(strategy, hw.Uniform):
        return lambda t, m, i: 1 / times(m, i)
    if isinstance(strategy, hw.ByMemory):
        return lambda t, m, i: 1.0
    if isinstance(strategy, hw.Given):
        starts = np.cumsum([0, *counts])
        return lambda t, m, i: float(decaying(t, sum(counts))[starts[m] + i])
    if isinstance(strategy, hw.Importance):
        importance = list(strategy.importance)
    else:
        share = {hw.Historical: 1.0, hw.Fresh: 0.0}.get(
            type(strategy), getattr(strategy, "historical", None)
        )
        groups = {True: share, False: 1 - share}
        total = {
            kind: sum(n for n, o in zip(sizes, old, strict=True) if o is kind) for kind in groups
        }
        if any(groups[kind] > 0 and not total[kind] for kind in groups):
            return None
        importance = [
            groups[o] * n / total[o] if groups[o] else 0.0 for n, o in zip(sizes, old, strict=True)
        ]
    if any(p > 0 and not n for p, n in zip(importance, sizes, strict=True)):
        return None
    return lambda t, m, i: importance[m] / sizes[m] / times(m, i)


def importances(clients):
    some = st.lists(st.integers(0, 5), min_size=clients, max_size=clients).filter(any)
    return some.map(lambda parts: hw.Importance(np.array(parts) / sum(parts)))


def strategies(counts):
    return st.one_of(
        st.sampled_from([hw.Uniform(), hw.ByMemory(), hw.Historical(), hw.Fresh()]),
        st.builds(hw.Share, st.sampled_from([0.0, 0.2, 0.5, 1.0])),
        importances(len(counts)),
        st.just(hw.Given(lambda t: decaying(t, sum(counts)))),
    )


@st.composite
def ledgers(draw):
    setting = draw(settings_of_a_ledger(most_clients=3, most_samples=8, most_rounds=6))
    return setting, draw(strategies(setting.counts))


def book_of(setting, strategy):
    held = by_hand.memories(
        setting.counts, setting.arrivals, setting.rules, setting.rounds, setting.seed
    )
    weight = weight_by_hand(strategy, held, setting.counts)
    return None if weight is None else Book(held, setting.counts, weight)


@settings(max_examples=150, deadline=None)
@given(ledgers())
def test_every_share_is_the_papers_sum(case):
    setting, strategy = case
    book = book_of(setting, strategy)
    if book is None or not book.usable():
        with pytest.raises(hw.InputError):
            hw.Ledger.weigh(setting.holdings(), strategy)
        return
    ledger = hw.Ledger.weigh(setting.holdings(), strategy)
    np.testing.assert_allclose(ledger.client_shares, book.client_shares(), **CLOSE)
    np.testing.assert_allclose(ledger.round_shares, book.round_shares(), **CLOSE)
    np.testing.assert_allclose(ledger.sample_shares, book.sample_shares(), **CLOSE)
    np.testing.assert_allclose(ledger.effective_samples, book.effective_samples(), rtol=1e-9)
    np.testing.assert_allclose(ledger.variability, book.variability(), rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(ledger.drift, book.drift(), rtol=1e-7, atol=1e-12)


@settings(max_examples=50, deadline=None)
@given(ledgers())
def test_the_rounds_that_the_learner_follows(case):
    """Who takes part, with which share, which samples and which weights."""
    setting, strategy = case
    book = book_of(setting, strategy)
    assume(book is not None and book.usable())
    ledger = hw.Ledger.weigh(setting.holdings(), strategy)
    starts = np.cumsum([0, *setting.counts])
    for t, round in enumerate(ledger.rounds(), start=1):
        there = [m for m in book.clients if book.sum(t, m) > 0]
        assert round.number == t
        assert round.clients.tolist() == there
        np.testing.assert_allclose(
            round.shares, [book.sum(t, m) / book.sum(t) for m in there], **CLOSE
        )
        for k, m in enumerate(there):
            mine = slice(round.offsets[k], round.offsets[k + 1])
            wanted = {
                starts[m] + i: book.weight[t, m, i] / book.sum(t, m)
                for i in book.held[t][m]
                if book.weight[t, m, i] > 0
            }
            got = dict(zip(round.samples[mine].tolist(), round.weights[mine].tolist(), strict=True))
            assert got == pytest.approx(wanted)


@settings(max_examples=60, deadline=None)
@given(ledgers())
def test_importance_is_the_mean_of_the_shares_of_the_rounds(case):
    """p_m = Σ_i p_mi = Σ_t q(t) p_m(t), and N_eff ≤ N."""
    setting, strategy = case
    book = book_of(setting, strategy)
    assume(book is not None and book.usable())
    ledger = hw.Ledger.weigh(setting.holdings(), strategy)
    np.testing.assert_allclose(
        ledger.importance, ledger.round_shares @ ledger.client_shares, **CLOSE
    )
    np.testing.assert_allclose(ledger.client_shares.sum(axis=1), 1, rtol=1e-12)
    for whole in (ledger.importance, ledger.round_shares, ledger.sample_shares):
        assert whole.sum() == pytest.approx(1, rel=1e-12)
        assert (whole >= 0).all()
    assert ledger.effective_samples <= ledger.holdings.collected.sum() * (1 + 1e-12)


def test_a_ledger_by_hand():
    """Two samples kept for four rounds, and a memory of one that sees a, b in rounds 1 and 3; λ = 1
    but λ_b = 2.

    Rounds 1, 2: 1 + 1 + 1 = 3, rounds 3, 4: 1 + 1 + 2 = 4; all together 14.
    p_2(t) = 1/3, 1/3, 1/2, 1/2; q = 3, 3, 4, 4 over 14; p = 8/14, 6/14; p_i = 4, 4, 2, 4 over 14.
    N_eff = 14² / (16 + 16 + 4 + 16) = 196/52; Σ q/N_eff(t) = 6/14·3/9 + 8/14·6/16 = 5/14.
    """
    ledger = hw.Ledger.of(
        [2, 2],
        [hw.Once(), hw.Trace([1, 0, 1])],
        [hw.Keep(), hw.Fifo(1)],
        hw.Given([1, 1, 1, 2]),
        rounds=4,
    )
    np.testing.assert_allclose(ledger.client_shares[:, 1], [1 / 3, 1 / 3, 1 / 2, 1 / 2])
    np.testing.assert_allclose(ledger.round_shares * 14, [3, 3, 4, 4])
    np.testing.assert_allclose(ledger.importance * 14, [8, 6])
    np.testing.assert_allclose(ledger.sample_shares * 14, [4, 4, 2, 4])
    assert ledger.effective_samples == pytest.approx(196 / 52)
    assert ledger.variability == pytest.approx(5 / 14 - 52 / 196)
    assert ledger.historical_share == pytest.approx(8 / 14)


def test_weights_of_very_different_size():
    """A sample that counts a billion times as much, and leaves: the others' rounds are still
    right."""
    ledger = hw.Ledger.of(
        [1, 3], [hw.Window(1, 2), hw.Once()], hw.Keep(), hw.Given([3e9, 1, 2, 4]), rounds=4
    )
    total = 2 * (3e9 + 7) + 14
    np.testing.assert_allclose(
        ledger.round_shares, np.array([3e9 + 7, 3e9 + 7, 7, 7]) / total, rtol=1e-12
    )


@pytest.mark.parametrize("steady", [hw.ByMemory(), hw.Uniform(), hw.Importance([0.25, 0.75])])
def test_weights_as_an_array_or_as_a_function_are_the_same_ledger(steady):
    """The fast sums for weights that do not change, against the sums that go from round to
    round."""
    holdings = hw.unroll(
        [5, 30], [hw.Once(), hw.Poisson(4)], [hw.Keep(), hw.Reservoir(6)], rounds=12, seed=3
    )
    values = steady.weights(holdings)
    one, two = (
        hw.Ledger.weigh(holdings, steady),
        hw.Ledger.weigh(holdings, hw.Given(lambda t: values)),
    )
    for name in (
        "client_shares",
        "round_shares",
        "sample_shares",
        "importance",
        "variability",
        "drift",
    ):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-11, atol=1e-15)
