"""Sums over intervals against fractions: nothing is lost, however much the summands differ."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_federations import settings_of_a_ledger

import headwater as hw
from headwater.ledger.exact_sums import covering, within

WILD = st.one_of(
    st.just(0.0),
    st.floats(1e-140, 1e140),
    st.integers(-120, 120).map(lambda e: 10.0**e),
    st.sampled_from([1e16, 1.0, 1 + 2**-52, 3.0, 1 / 3]),
)


@st.composite
def intervals(draw):
    places = draw(st.integers(1, 12))
    begin = draw(st.lists(st.integers(0, places - 1), min_size=1, max_size=30))
    end = [draw(st.integers(b, places)) for b in begin]
    return places, np.array(begin), np.array(end)


@settings(max_examples=200, deadline=None)
@given(intervals(), st.data())
def test_sums_at_places_are_exact_to_the_last_bits(case, data):
    places, begin, end = case
    values = np.array(data.draw(st.lists(WILD, min_size=len(begin), max_size=len(begin))))
    found = covering(begin, end, values, places)
    for place in range(places):
        here = (begin <= place) & (place < end)
        exact = float(sum((Fraction(v) for v in values[here].tolist()), Fraction(0)))
        assert found[place] == pytest.approx(exact, rel=1e-15, abs=0)


@settings(max_examples=200, deadline=None)
@given(intervals(), st.data())
def test_sums_over_intervals_are_exact_to_the_last_bits(case, data):
    places, begin, end = case
    values = np.array(data.draw(st.lists(WILD, min_size=places, max_size=places)))
    found = within(begin, end, values)
    for k, (b, e) in enumerate(zip(begin, end, strict=True)):
        exact = float(sum((Fraction(v) for v in values[b:e].tolist()), Fraction(0)))
        assert found[k] == pytest.approx(exact, rel=1e-15, abs=0)


def test_a_million_summands_are_as_exact_as_one():
    """A sum of 10^6 thirds of very different size, against an exact sum of their fractions."""
    rng = np.random.default_rng(0)
    values = rng.uniform(size=1_000_000) * 10.0 ** rng.integers(-30, 30, 1_000_000)
    begin = np.zeros(len(values), int)
    begin[values > 1e-20] = 1
    found = covering(begin, np.full(len(values), 3), values, 3)
    small = sum((Fraction(v) for v in values[values <= 1e-20].tolist()), Fraction(0))
    assert found[0] == pytest.approx(float(small), rel=1e-15)


class Exact:
    """A ledger's figures in fractions, from the definitions."""

    def __init__(self, holdings, weights):
        self.rounds = range(1, holdings.rounds + 1)
        self.weights = [Fraction(w) for w in weights.tolist()]
        self.client = holdings.client.tolist()
        self.held = {t: np.flatnonzero(holdings.held(t)).tolist() for t in self.rounds}
        self.weight = {
            t: sum((self.weights[i] for i in self.held[t]), Fraction(0)) for t in self.rounds
        }
        self.total = sum(self.weight.values())

    def round_shares(self):
        return [float(self.weight[t] / self.total) for t in self.rounds]

    def _shares(self, t, of):
        """The shares of round t, added up by what each sample belongs to."""
        shares = {}
        for i in self.held[t]:
            shares[of(i)] = shares.get(of(i), 0) + self.weights[i] / self.weight[t]
        return shares

    def spread(self, of):
        """Σ_t q(t) Σ (share of the round − share of the run)²."""
        mean = {}
        for t in self.rounds:
            for key, share in self._shares(t, of).items():
                mean[key] = mean.get(key, 0) + self.weight[t] / self.total * share
        return float(
            sum(
                self.weight[t]
                / self.total
                * sum((self._shares(t, of).get(key, 0) - p) ** 2 for key, p in mean.items())
                for t in self.rounds
            )
        )


def check(holdings, weights):
    ledger = hw.Ledger.weigh(holdings, hw.Given(weights))
    exact = Exact(holdings, weights)
    np.testing.assert_allclose(ledger.round_shares, exact.round_shares(), rtol=1e-14)
    assert ledger.variability == pytest.approx(exact.spread(lambda i: i), rel=1e-11, abs=3e-12)
    assert ledger.drift == pytest.approx(
        exact.spread(exact.client.__getitem__), rel=1e-11, abs=3e-12
    )


@settings(max_examples=100, deadline=None)
@given(settings_of_a_ledger(), st.integers(0, 2**32), st.sampled_from([1, 30, 280]))
def test_ledgers_of_wild_weights_are_exact(setting, seed, decades):
    """Weights over up to 280 orders of magnitude: exact to 1e-12 of what is subtracted."""
    holdings = setting.holdings()
    assume(all(holdings.held(t).any() for t in range(1, setting.rounds + 1)))
    rng = np.random.default_rng(seed)
    check(holdings, 10.0 ** (decades * rng.uniform(-0.5, 0.5, len(holdings.enter))))


def test_weights_that_fall_by_many_orders_of_magnitude():
    """λ_i = 0.6^i, one sample per round: q(t) ∝ 0.6^t, variability 1 − Σ q² = 0.75, no drift."""
    holdings = hw.unroll([80], hw.Constant(1), hw.Fifo(1), rounds=80)
    weights = 0.6 ** np.arange(80)
    ledger = hw.Ledger.weigh(holdings, hw.Given(weights))
    np.testing.assert_allclose(ledger.round_shares, weights / weights.sum(), rtol=1e-13)
    assert ledger.variability == pytest.approx(0.75, rel=1e-12)
    assert ledger.drift == 0


def test_a_huge_weight_does_not_drown_the_others():
    holdings = hw.unroll([4], hw.Constant(1), hw.Fifo(1), rounds=4)
    ledger = hw.Ledger.weigh(holdings, hw.Given([1e16, 1, 1, 1]))
    np.testing.assert_allclose(ledger.round_shares[1:] * (1e16 + 3), 1, rtol=1e-14)


@pytest.mark.parametrize("size", [1e308, 1e-308, 5e-324, 1e150, 1e-150])
def test_only_ratios_matter_up_to_the_ends_of_what_a_float_can_hold(size):
    holdings = hw.unroll([4], hw.Constant(1), hw.Fifo(2), rounds=4)
    ledger = hw.Ledger.weigh(holdings, hw.Given([size] * 4))
    equal = hw.Ledger.weigh(holdings, hw.ByMemory())
    assert ledger.effective_samples == equal.effective_samples
    assert ledger.variability == pytest.approx(equal.variability, rel=1e-14)
    np.testing.assert_allclose(ledger.round_shares, equal.round_shares, rtol=1e-15)


def test_weights_that_cannot_be_compared_are_refused():
    holdings = hw.unroll([2], hw.Constant(1), hw.Fifo(1), rounds=2)
    with pytest.raises(hw.InputError, match=r"weights of Given: some are more than 1e\+300 times"):
        hw.Ledger.weigh(holdings, hw.Given([1e300, 1e-300]))
    with pytest.raises(hw.InputError, match=r"weights in round 1: numbers up to 1e\+140"):
        hw.Ledger.weigh(holdings, hw.Given(lambda t: [1e300, 1.0]))
