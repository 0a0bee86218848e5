"""Remembered samples: Q's minimiser against other solvers, its limits, and runs of every kind."""

from __future__ import annotations

import doctest
import math
from dataclasses import replace
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_federations import settings_of_a_ledger

import headwater as hw
from headwater.ledger.client_terms import ClientTerms
from headwater.ledger.conformance import check_strategy
from headwater.ledger.drawing import Drawing
from headwater.planner.remembered import (
    remembered_error,
    remembered_importance,
    remembered_samples,
    remembered_share,
)


@st.composite
def problems(draw, most=8):
    many = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    samples = np.ceil(10 ** rng.uniform(0, 5, many))
    noise = rng.choice([0.0, 1.0], many) * 10 ** rng.uniform(-4, 1, many)
    absence = rng.choice([0.0, 1.0], many) * 10 ** rng.uniform(-1, 2, many)
    target = rng.dirichlet(np.ones(many) * draw(st.sampled_from([0.1, 1.0])))
    horizon = draw(st.sampled_from([1, 5, 25, 400]))
    rho = draw(st.sampled_from([0.0, 1e-3, 0.13, 5.0, 1e6]))
    return samples, noise, horizon, rho, target, absence


@settings(max_examples=300, deadline=None)
@given(problems(most=40))
def test_the_optimality_conditions_hold_to_the_last_digits(problem):
    """p ≥ 0 and Σ p = 1; the derivative is the same for all clients, in extended precision."""
    samples, noise, horizon, rho, target, absence = problem
    p = remembered_importance(*problem).astype(np.longdouble)
    assert (p > 0).all()
    assert float(abs(p.sum() - 1)) <= 1e-12
    slope = p * (1 / samples + noise / horizon + rho * absence / horizon) + rho * (p - target)
    size = p * (1 / samples + noise / horizon + rho * (1 + absence / horizon))
    residual = slope - slope.mean()
    assert float(np.abs(residual).max() / size.max()) <= 1e-12


@settings(max_examples=30, deadline=None)
@given(problems())
def test_a_general_solver_finds_nothing_better(problem):
    samples, noise, horizon, rho, target, absence = problem
    assume(rho < 1e3)
    p = cp.Variable(len(samples), nonneg=True)
    few = 1 / samples + noise / horizon
    spread = cp.sum_squares(p - target) + cp.sum(cp.multiply(absence / horizon, cp.square(p)))
    cost = cp.sum(cp.multiply(few, cp.square(p))) + rho * spread
    cp.Problem(cp.Minimize(cost), [cp.sum(p) == 1]).solve(solver=cp.CLARABEL)
    ours = remembered_importance(*problem)
    found = np.maximum(p.value, 0) / np.maximum(p.value, 0).sum()
    assert remembered_error(ours, *problem) <= remembered_error(found, *problem) * (1 + 1e-9)
    np.testing.assert_allclose(ours, found, atol=2e-3)


def test_the_least_of_a_fine_grid():
    """Two clients, Q by hand over a grid of a million shares."""
    p = np.linspace(0, 1, 1_000_001)
    q = p**2 * (1 / 50 + 0.1 / 8) + (1 - p) ** 2 * (1 / 200 + 0.3 / 8)
    q += 0.4 * ((p - 0.7) ** 2 + (1 - p - 0.3) ** 2 + (1 - p) ** 2 * 3 / 8)
    ours = remembered_importance([50, 200], [0.1, 0.3], 8, 0.4, [0.7, 0.3], [0, 3])
    assert ours[0] == pytest.approx(p[np.argmin(q)], abs=1e-6)
    assert remembered_error(ours, [50, 200], [0.1, 0.3], 8, 0.4, [0.7, 0.3], [0, 3]) == (
        pytest.approx(q.min(), rel=1e-10)
    )


@settings(max_examples=100, deadline=None)
@given(problems(most=9), st.integers(0, 2**32))
def test_the_share_with_the_least_q_is_that_of_a_grid(problem, seed):
    samples, noise, horizon, rho, target, absence = problem
    fresh = np.random.default_rng(seed).integers(0, 2, len(samples)).astype(bool)
    assume(fresh.any() and not fresh.all())
    found = remembered_share(samples, noise, fresh, horizon, rho, target, absence)
    assert 0 <= found <= 1

    def error(share):
        old = np.where(fresh, 0, samples) / samples[~fresh].sum()
        new = np.where(fresh, samples, 0) / samples[fresh].sum()
        return remembered_error(share * old + (1 - share) * new, *problem)

    assert error(found) <= min(error(s) for s in np.linspace(0, 1, 101)) * (1 + 1e-9)


def test_clients_that_are_alike_can_stand_in_one_row():
    each = remembered_importance([50, 9, 9, 9], [0.0, 0.2, 0.2, 0.2], 10, 0.3, None, [0, 1, 1, 1])
    rows = remembered_importance([50, 9], [0.0, 0.2], 10, 0.3, None, [0, 1], clients=[1, 3])
    np.testing.assert_allclose(rows, each[:2], rtol=1e-14)


def test_without_differences_it_is_the_closed_form():
    samples, noise = np.array([30.0, 500.0, 80.0]), np.array([0.0, 0.2, 0.05])
    n = 1 / (1 / samples + noise / 12)
    np.testing.assert_allclose(remembered_importance(samples, noise, 12), n / n.sum(), rtol=1e-14)
    np.testing.assert_allclose(remembered_samples(samples, noise, 12), n, rtol=1e-14)


def test_the_limits():
    samples, noise, alpha = [30, 500, 80], [0.0, 0.2, 0.05], [0.5, 0.2, 0.3]
    endless = remembered_importance(samples, noise, math.inf)
    np.testing.assert_allclose(endless, np.array(samples) / 610, rtol=1e-14)
    for rho in (1e13, math.inf):
        found = remembered_importance(samples, noise, 5, rho, alpha)
        np.testing.assert_allclose(found, alpha, rtol=1e-11)
    assert remembered_importance([7], [3.0], 2, 0.5, None, [9.0]).tolist() == [1.0]
    short = remembered_importance(samples, noise, 1e-9)
    assert short[0] == pytest.approx(1)


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("horizon", {"horizon": 0}),
        ("horizon", {"horizon": -1.0}),
        ("heterogeneity", {"heterogeneity": -0.1}),
        ("heterogeneity", {"heterogeneity": math.nan}),
        ("target", {"target": [0.9, 0.9]}),
        ("absence", {"absence": [1.0]}),
        ("noise", {"noise": [-1.0, 0.0]}),
        ("clients", {"clients": [0, 0]}),
    ],
)
def test_what_the_planner_cannot_use(words, settings):
    given = {"samples": [3, 4], "noise": [0.0, 0.1], "horizon": 5, **settings}
    with pytest.raises(hw.InputError, match=words):
        remembered_importance(**given)


# ------------------------------------------------------------------ the strategy


@settings(max_examples=60, deadline=None)
@given(settings_of_a_ledger(), st.sampled_from([0.0, 0.2, 50.0]), st.integers(1, 4))
def test_any_federation_gets_the_minimiser(setting, rho, batch):
    """Any arrivals, memory, batches, clients that come and go: no other importance has less Q."""
    holdings = replace(setting.holdings(), drawing=Drawing(2, batch))
    assume(all(holdings.held(t).any() for t in range(1, setting.rounds + 1)))
    p = hw.Ledger.weigh(holdings, hw.Remembered(3, rho)).importance
    there = holdings.collected > 0
    terms = ClientTerms(holdings)
    case = holdings.collected[there], terms.noise()[there], 3, rho, None, terms.absence[there]
    least = remembered_error(p[there], *case)
    for other in np.random.default_rng(0).dirichlet(np.ones(there.sum()), 20):
        assert least <= remembered_error(other, *case) * (1 + 1e-12)


def test_q_is_made_of_the_ledgers_own_figures():
    """Where rounds count the same: Q = 1/N_eff + variability/τ + ρ(‖p − α‖² + drift/τ)."""
    windows = [hw.Window(t, t + 1) for t in (1, 3, 5, 7)]
    counts, rules = [30, *[20] * 4], [hw.Once(), *windows]
    holdings = replace(hw.unroll(counts, rules, hw.Keep(), rounds=8), drawing=Drawing(2, 4))
    p = np.array([0.4, 0.15, 0.15, 0.15, 0.15])
    ledger = hw.Ledger.weigh(holdings, hw.Importance(p))
    terms = ClientTerms(holdings)
    found = remembered_error(p, holdings.collected, terms.noise(), 3.0, 0.2, None, terms.absence)
    by_hand = 1 / ledger.effective_samples + ledger.drawn.variability / 3
    by_hand += 0.2 * (np.square(p - 0.2).sum() + ledger.drawn.drift / 3)
    assert found == pytest.approx(by_hand, rel=1e-12)


def test_limits_of_the_strategy():
    rules = [hw.Once(), hw.Constant(2)], [hw.Keep(), hw.Fifo(2)]

    def importance(strategy, rounds=10):
        return hw.Ledger.of([6, 20], *rules, strategy, rounds).importance

    np.testing.assert_allclose(importance(hw.Remembered(math.inf, 0.0)), [6 / 26, 20 / 26])
    np.testing.assert_allclose(importance(hw.Remembered(10**12, 0.0)), [6 / 26, 20 / 26], rtol=1e-9)
    np.testing.assert_allclose(importance(hw.Remembered(0.25, math.inf)), [0.5, 0.5])
    aimed = importance(hw.Remembered(0.25, 1e12, target=[0.9, 0.1]))
    np.testing.assert_allclose(aimed, [0.9, 0.1], rtol=1e-9)
    one_round = importance(hw.Remembered(0.25, 0.0), rounds=1)
    np.testing.assert_allclose(one_round, [6 / 8, 2 / 8])
    alone = hw.Ledger.of([9], hw.Constant(1), hw.Fifo(2), hw.Remembered(0.25, 0.3), rounds=9)
    assert alone.importance.tolist() == [1.0]
    fraction, whole = importance(hw.Remembered(0.5, 0.1)), importance(hw.Remembered(5, 0.1))
    np.testing.assert_array_equal(fraction, whole)


def test_clients_that_never_come_count_nothing():
    holdings = hw.unroll([4, 4], [hw.Once(), hw.Window(9, 12)], hw.Keep(), rounds=4)
    assert hw.Ledger.weigh(holdings, hw.Remembered(2, 0.5)).importance.tolist() == [1, 0]
    aimed = hw.Remembered(2, 0.5, target=[0.5, 0.5])
    assert hw.Ledger.weigh(holdings, aimed).importance.tolist() == [1, 0]


@pytest.mark.parametrize("kind", [hw.Remembered, hw.RememberedOnline])
def test_the_strategies_conform(kind):
    for strategy in (kind(0.25, 0.0), kind(3, 0.5, [0.3, 0.7])):
        check_strategy(strategy)
        assert strategy == replace(strategy)
        assert kind.__name__ in repr(strategy)


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (r"Remembered\(horizon\).*got 1.5", {"horizon": 1.5}),
        (r"horizon", {"horizon": 0}),
        (r"horizon", {"horizon": "long"}),
        (r"horizon", {"horizon": True}),
        (r"horizon", {"horizon": math.nan}),
        (r"Remembered\(heterogeneity\).*'x'", {"heterogeneity": "x"}),
        (r"heterogeneity", {"heterogeneity": -1}),
        (r"heterogeneity", {"heterogeneity": True}),
        (r"Remembered\(target\)", {"target": [0.4, 0.4]}),
    ],
)
def test_settings_that_cannot_be_used(words, given):
    with pytest.raises(hw.InputError, match=words):
        hw.Remembered(**given)


def test_the_share_of_a_federation():
    rules = [hw.Once(), hw.Constant(4)], [hw.Keep(), hw.Fifo(4)]
    holdings = hw.unroll([100, 400], *rules, rounds=100)
    strategy = hw.Remembered(0.25, 0.1)
    whole = hw.Ledger.weigh(holdings, strategy).historical_share
    assert strategy.share(holdings) == pytest.approx(whole, rel=1e-12)
    with pytest.raises(hw.InputError, match="both kinds"):
        strategy.share(hw.unroll([5], hw.Once(), hw.Keep(), rounds=3))


def test_what_must_be_known_before_weighing():
    holdings = hw.unroll([4, 4], hw.Once(), hw.Keep(), rounds=4)
    with pytest.raises(hw.InputError, match=r"give ρ"):
        hw.Ledger.weigh(holdings, hw.Remembered(0.25))
    with pytest.raises(hw.InputError, match=r"give τ"):
        hw.Ledger.weigh(holdings, hw.Remembered(heterogeneity=0.1))
    with pytest.raises(hw.InputError, match=r"3 shares for 2 clients"):
        hw.Ledger.weigh(holdings, hw.Remembered(0.25, 0.1, [0.2, 0.3, 0.5]))


# ------------------------------------------------------------------ online


@settings(max_examples=30, deadline=None)
@given(settings_of_a_ledger(), st.integers(1, 5))
def test_online_uses_nothing_of_the_future(setting, more):
    """A longer run, of which more will come, begins with the same weights."""
    strategy = hw.RememberedOnline(4, 0.3)
    assume(setting.holdings().held(1).any())
    short = strategy.weights(setting.holdings())
    long = strategy.weights(replace(setting, rounds=setting.rounds + more).holdings())
    for t in range(1, setting.rounds + 1):
        held = setting.holdings().held(t)
        np.testing.assert_allclose(short(t)[held], long(t)[held], rtol=1e-12)


def test_online_counts_by_hand():
    """Round 3 of a client with 6 samples and one that got 2, 2, 2 and keeps 2, with batches."""
    rules = [hw.Once(), hw.Constant(2)], [hw.Keep(), hw.Fifo(2)]
    holdings = replace(hw.unroll([6, 20], *rules, rounds=9), drawing=Drawing(1, 3))
    ledger = hw.Ledger.weigh(holdings, hw.RememberedOnline(2, 0.0))
    v = np.array([1 / 3 - 1 / 6, 1 / 2 - 1 / 6])
    n = 1 / (1 / 6 + v / 2)
    np.testing.assert_allclose(ledger.client_shares[2], n / n.sum(), rtol=1e-12)


def test_online_visitors_count_more_when_they_are_there():
    """There in one round of three, and one of two clients: p/f against p, as over the run."""
    holdings = hw.unroll([6, 6], [hw.Once(), hw.Window(3, 3)], hw.Keep(), rounds=3)
    ledger = hw.Ledger.weigh(holdings, hw.RememberedOnline(math.inf, 0.0))
    np.testing.assert_allclose(ledger.client_shares[2], [0.25, 0.75], rtol=1e-12)


def test_online_comes_to_what_the_whole_run_says():
    """Steady streams: in the last round the shares are those of the run, but for the weights of
    samples that came early and will not stay."""
    rules = [hw.Once(), hw.Constant(3), hw.Constant(1)], [hw.Keep(), hw.Fifo(3), hw.Fifo(1)]
    holdings = hw.unroll([50, 600, 200], *rules, rounds=200)
    online = hw.Ledger.weigh(holdings, hw.RememberedOnline(50, 0.1)).client_shares[-1]
    whole = hw.Ledger.weigh(holdings, hw.Remembered(50, 0.1)).importance
    np.testing.assert_allclose(online, whole, rtol=1e-10)


def test_the_page_shows_what_comes_out():
    page = Path(__file__).parents[2] / "docs" / "remembered.md"
    found = doctest.testfile(str(page), module_relative=False)
    assert found.attempted >= 6
    assert found.failed == 0
