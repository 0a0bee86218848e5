"""The gradient variability: its two forms, closed forms for known federations, simulated
gradients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_federations import settings_of_a_ledger

import headwater as hw
from headwater.ledger.client_terms import client_noise


def shares_of_rounds(ledger):
    """w_i(t), a row a round."""
    table = np.array([ledger.weights_at(t) for t in range(1, ledger.holdings.rounds + 1)])
    return table / table.sum(axis=1, keepdims=True)


@settings(max_examples=100, deadline=None)
@given(settings_of_a_ledger(), st.booleans(), st.integers(0, 2**32))
def test_both_forms_are_equal_for_any_memory_arrivals_and_weights(setting, varying, seed):
    """Σ_t q Σ_i (w_i(t) − p_i)² = Σ_t q/N_eff(t) − 1/N_eff, and the same for clients."""
    holdings = setting.holdings()
    assume(all(holdings.held(t).any() for t in range(1, setting.rounds + 1)))
    table = np.random.default_rng(seed).uniform(0.1, 3, (setting.rounds + 1, len(holdings.enter)))
    ledger = hw.Ledger.weigh(holdings, hw.Given((lambda t: table[t]) if varying else table[0]))
    w, q, p = shares_of_rounds(ledger), ledger.round_shares, ledger.sample_shares
    np.testing.assert_allclose(q @ w, p, rtol=1e-10)
    spread = q @ np.square(w - p).sum(axis=1)
    inverse = q @ np.square(w).sum(axis=1) - np.square(p).sum()
    np.testing.assert_allclose(ledger.variability, spread, rtol=1e-8, atol=1e-13)
    np.testing.assert_allclose(ledger.variability, inverse, rtol=1e-8, atol=1e-13)
    moved = q @ np.square(ledger.client_shares - ledger.importance).sum(axis=1)
    np.testing.assert_allclose(ledger.drift, moved, rtol=1e-8, atol=1e-13)


@pytest.mark.parametrize(
    ("old", "new", "batch", "rounds"), [(1, 1, 1, 4), (2, 3, 4, 10), (3, 1, 2, 25)]
)
def test_the_papers_case_has_a_closed_form(old, new, batch, rounds):
    """σ0² Σ_fresh p_m² (1/b_m − 1/N_m), below the paper's bound (M − M_hist) Σ_fresh p_m²; no
    drift."""
    rng = np.random.default_rng(old + new)
    counts = [*rng.integers(2, 9, old), *[batch * rounds] * new]
    holdings = hw.unroll(
        counts,
        [hw.Once()] * old + [hw.Constant(batch)] * new,
        [hw.Keep()] * old + [hw.Fifo(batch)] * new,
        rounds,
    )
    p = rng.dirichlet(np.ones(old + new))
    ledger = hw.Ledger.weigh(holdings, hw.Importance(p))
    fresh = np.square(p[old:]).sum()
    assert ledger.variability == pytest.approx(fresh * (1 / batch - 1 / (batch * rounds)))
    assert ledger.variability <= new * fresh
    assert ledger.drift == pytest.approx(0, abs=1e-15)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 5), st.integers(1, 12))
def test_clients_noises_add_up_to_the_variability(seed, old, new, rounds):
    """Σ_m p_m² v_m for historical and fresh clients, whose rounds all count the same."""
    rng = np.random.default_rng(seed)
    batches = rng.integers(1, 5, new)
    counts = [*rng.integers(1, 9, old), *(batches * rounds)]
    holdings = hw.unroll(
        counts,
        [hw.Once()] * old + [hw.Constant(int(b)) for b in batches],
        [hw.Keep()] * old + [hw.Fifo(int(b)) for b in batches],
        rounds,
    )
    p = rng.dirichlet(np.ones(old + new))
    ledger = hw.Ledger.weigh(holdings, hw.Importance(p))
    noise = client_noise(holdings)
    np.testing.assert_allclose(np.square(p) @ noise, ledger.variability, rtol=1e-8, atol=1e-12)
    assert not noise[:old].any()
    np.testing.assert_allclose(noise[old:], 1 / batches - 1 / (batches * rounds), atol=1e-12)


def test_historical_clients_alone_do_not_vary():
    ledger = hw.Ledger.of([3, 5], hw.Once(), hw.Keep(), hw.Importance([0.9, 0.1]), rounds=7)
    assert ledger.variability == pytest.approx(0, abs=1e-15)
    assert ledger.drift == pytest.approx(0, abs=1e-15)


def test_it_predicts_the_gradients_of_simulated_samples():
    """E‖∇F − ∇F_t‖² by drawing gradients: σ0² Σ_i (w_i(t) − p_i)² + ‖Σ_m (p_m(t) − p_m) μ_m‖²,
    round by round.

    Reservoirs, Poisson arrivals, a window, unequal means of the clients: the formula knows no
    special case.
    """
    holdings = hw.unroll(
        [4, 14, 9],
        [hw.Once(), hw.Poisson(2), hw.Window(2, 4, hw.Constant(1))],
        [hw.Keep(), hw.Reservoir(3), hw.Fifo(2)],
        rounds=5,
        seed=8,
    )
    ledger = hw.Ledger.weigh(holdings, hw.ByMemory())
    w, p = shares_of_rounds(ledger), ledger.sample_shares
    draws, deviation, means = 40_000, 1.5, np.array([0.0, 2.0, -1.0])
    rng = np.random.default_rng(0)
    gradients = means[holdings.client] + deviation * rng.normal(size=(draws, len(p)))
    measured = np.square(gradients @ (w - p).T).mean(axis=0)
    shift = (ledger.client_shares - ledger.importance) @ means
    exact = deviation**2 * np.square(w - p).sum(axis=1) + shift**2
    np.testing.assert_allclose(measured, exact, rtol=6 * np.sqrt(3 / draws))
    noise_part = ledger.round_shares @ (exact - shift**2)
    assert noise_part == pytest.approx(deviation**2 * ledger.variability)
