"""Strategies: what each promises about samples and clients over the run."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from random_federations import settings_of_a_ledger

import headwater as hw
from headwater.ledger.client_terms import ClientTerms
from headwater.planner import minimise


@settings(max_examples=120, deadline=None)
@given(settings_of_a_ledger(most_clients=5, most_samples=20, most_rounds=12))
def test_uniform_gives_every_collected_sample_one_nth(setting):
    holdings = setting.holdings()
    assume(all(holdings.held(t).any() for t in range(1, setting.rounds + 1)))
    ledger = hw.Ledger.weigh(holdings, hw.Uniform())
    collected = holdings.rounds_held > 0
    np.testing.assert_allclose(ledger.sample_shares[collected], 1 / collected.sum(), rtol=1e-12)
    assert not ledger.sample_shares[~collected].any()
    assert ledger.effective_samples == pytest.approx(collected.sum(), rel=1e-12)
    np.testing.assert_allclose(ledger.importance, holdings.collected / collected.sum(), rtol=1e-12)


@settings(max_examples=80, deadline=None)
@given(settings_of_a_ledger(), st.lists(st.integers(1, 9), min_size=4, max_size=4))
def test_importance_is_what_was_asked_for_and_spread_evenly(setting, parts):
    holdings = setting.holdings()
    assume((holdings.collected > 0).all())
    assume(all(holdings.held(t).any() for t in range(1, setting.rounds + 1)))
    wanted = np.array(parts[: holdings.clients]) / sum(parts[: holdings.clients])
    ledger = hw.Ledger.weigh(holdings, hw.Importance(wanted))
    np.testing.assert_allclose(ledger.importance, wanted, rtol=1e-10)
    each = ledger.sample_shares * (holdings.collected / wanted)[holdings.client]
    np.testing.assert_allclose(each[holdings.rounds_held > 0], 1, rtol=1e-10)


@pytest.fixture
def mixed():
    """Two historical clients of 3 and 5 samples, fresh ones of 20 and 12 (with unequal stays), 10
    rounds."""
    return hw.unroll(
        [3, 5, 20, 12],
        [hw.Once(), hw.Once(), hw.Constant(2), hw.Poisson(1.2)],
        [hw.Keep(), hw.Fifo(5), hw.Fifo(3), hw.Reservoir(4)],
        rounds=10,
        seed=4,
    )


def test_the_federation_has_two_of_each_kind(mixed):
    assert mixed.historical.tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    ("strategy", "historical"),
    [(hw.Historical(), 1.0), (hw.Fresh(), 0.0), (hw.Share(0.3), 0.3), (hw.Share(1), 1.0)],
)
def test_groups_count_what_they_should_and_by_samples_within(mixed, strategy, historical):
    ledger = hw.Ledger.weigh(mixed, strategy)
    assert ledger.historical_share == pytest.approx(historical)
    sizes = mixed.collected
    old = np.where(mixed.historical, sizes / sizes[:2].sum(), 0)
    new = np.where(mixed.historical, 0, sizes / sizes[2:].sum())
    np.testing.assert_allclose(
        ledger.importance, historical * old + (1 - historical) * new, rtol=1e-12
    )


def test_by_memory_counts_every_sample_in_memory_alike(mixed):
    ledger = hw.Ledger.weigh(mixed, hw.ByMemory())
    for round in ledger.rounds():
        held = np.diff(round.offsets)
        np.testing.assert_allclose(round.shares, held / held.sum())
        np.testing.assert_allclose(round.weights, 1 / np.repeat(held, held))


@pytest.mark.parametrize("ratio", [0.0, 0.05, 0.15, 1.0, 1e6])
def test_optimal_takes_the_planners_importance(mixed, ratio):
    ledger = hw.Ledger.weigh(mixed, hw.Optimal(ratio=ratio))
    best = minimise((~mixed.historical).astype(float), mixed.collected, ratio)
    np.testing.assert_allclose(ledger.importance, best.importance, atol=1e-12)


def test_optimal_leaves_out_clients_that_never_hold_a_sample():
    holdings = hw.unroll(
        [4, 4, 4],
        [hw.Once(), hw.Constant(1), hw.Window(9, 12)],
        [hw.Keep(), hw.Fifo(1), hw.Keep()],
        rounds=4,
    )
    assert hw.Ledger.weigh(holdings, hw.Optimal(ratio=1.0)).importance[2] == 0


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-3, 1e3))
def test_only_ratios_of_weights_matter(scale):
    holdings = hw.unroll([3, 6], [hw.Once(), hw.Constant(1)], [hw.Keep(), hw.Fifo(2)], rounds=5)
    values = np.linspace(1, 2, 9)
    one, two = (hw.Ledger.weigh(holdings, hw.Given(v)) for v in (values, scale * values))
    for name in ("client_shares", "round_shares", "sample_shares", "variability"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-9)


def test_given_weights_may_change_from_round_to_round():
    """λ = (1, t): client 1's share is t/(1 + t), rounds count (1 + t)/14."""
    ledger = hw.Ledger.of([1, 1], hw.Once(), hw.Keep(), hw.Given(lambda t: [1.0, t]), rounds=3)
    np.testing.assert_allclose(ledger.client_shares[:, 1], [1 / 2, 2 / 3, 3 / 4])
    np.testing.assert_allclose(ledger.round_shares, np.array([2, 3, 4]) / 9)


def bound_of(ledger, ratio):
    """√variability + r·√(Σ p²/n), from the ledger's own figures."""
    sizes = ledger.holdings.collected / ledger.holdings.collected.sum()
    few = np.square(ledger.importance) @ (1 / sizes)
    return math.sqrt(ledger.variability) + ratio * math.sqrt(few)


@settings(max_examples=60, deadline=None)
@given(settings_of_a_ledger(), st.sampled_from([0.3, 1.0, 4.0]))
def test_the_sharp_bounds_noise_is_that_of_its_own_ledger(setting, ratio):
    """Windows, bursts, reservoirs: Σ p_m² v_m is the variability of the ledger that comes out."""
    holdings = setting.holdings()
    assume(all(holdings.held(t).any() for t in range(1, setting.rounds + 1)))
    fresh = int((~holdings.historical & (holdings.collected > 0)).sum())
    strategy = hw.Optimal(ratio / math.sqrt(max(fresh, 1)), bound="sharp")
    try:
        p = strategy.importance(holdings)
    except hw.InputError:  # rarely no answer agrees with itself, and that is said
        reject()
    assume(p[holdings.collected > 0].min() > 1e-6)
    ledger = hw.Ledger.weigh(holdings, strategy)
    noise = ClientTerms(holdings).noise(ledger.round_shares)
    assert np.square(p) @ noise == pytest.approx(ledger.variability, rel=1e-8, abs=1e-12)
    # and it is the minimiser for this noise
    there = holdings.collected > 0
    again = minimise(noise[there], holdings.collected[there], ratio).importance
    np.testing.assert_allclose(p[there], again, rtol=1e-7, atol=1e-9)


def test_the_sharp_bound_is_near_its_minimum_where_rounds_do_not_count_the_same():
    """A grid over p: with windows the answer is within half a per cent of the least bound."""
    rules = [hw.Once(), hw.Window(2, 3), hw.Constant(1)], [hw.Keep(), hw.Keep(), hw.Fifo(1)]
    holdings = hw.unroll([20, 12, 10], *rules, rounds=10)
    ratio = 0.7
    ours = bound_of(
        hw.Ledger.weigh(holdings, hw.Optimal(ratio / math.sqrt(2), bound="sharp")), ratio
    )
    grid = [(a, b, 1 - a - b) for a in np.linspace(0, 1, 41) for b in np.linspace(0, 1 - a, 41)]
    least = min(
        bound_of(hw.Ledger.weigh(holdings, hw.Importance(p)), ratio)
        for p in grid
        if p[0] + p[2] > 0
    )
    assert least * (1 - 1e-3) < ours < least * 1.005
