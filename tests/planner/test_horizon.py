"""The horizon against SGD itself: a quadratic loss, errors that stay and errors that come anew."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.planner.horizon import Sums

CURVATURE = np.array([2.0, 0.3, 0.02, 0.0005])
NOISE = np.array([5.0, 1.0, 0.5, 0.2])
MET = NOISE * CURVATURE


def horizon(curvature, noise, rate, rounds):
    """τ in rounds."""
    return rounds * Sums.of(curvature, noise * curvature, rate * rounds).part


def excess_loss(rate, rounds, constant, fresh, repetitions, seed):
    """½ Σ λ δ² after SGD from the minimum with two kinds of gradient error, by simulation."""
    draw = np.random.default_rng(seed)
    scale = np.sqrt(NOISE)
    stays = constant * scale * draw.normal(size=(repetitions, len(CURVATURE)))
    theta = np.zeros_like(stays)
    for _ in range(rounds):
        anew = fresh * scale * draw.normal(size=stays.shape)
        theta -= rate * (theta * CURVATURE + stays + anew)
    return 0.5 * (theta**2 @ CURVATURE)


@pytest.mark.parametrize(("rate", "rounds"), [(0.02, 50), (0.02, 1000), (0.005, 200)])
def test_the_two_losses_of_simulated_sgd_are_in_the_ratio_that_the_horizon_says(rate, rounds):
    few = excess_loss(rate, rounds, 1.0, 0.0, 4000, seed=1)
    noise = excess_loss(rate, rounds, 0.0, 1.0, 4000, seed=2)
    found = few.mean() / noise.mean()
    error = found * np.hypot(*(x.std() / x.mean() / len(x) ** 0.5 for x in (few, noise)))
    tau = horizon(CURVATURE, NOISE, rate, rounds)
    assert error < 0.04 * found
    # The formula is for small steps; with ηλ = 0.04 along the steepest direction it is 2 % off.
    assert abs(found - tau) < 3 * error + 0.02 * tau


def test_a_steep_direction_remembers_two_over_rate_times_curvature():
    tau = horizon(np.array([0.5]), np.array([3.0]), 0.01, 10**6)
    assert tau == pytest.approx(2 / (0.01 * 0.5), rel=1e-12)


@pytest.mark.parametrize("curvature", [0.0, 1e-300, 1e-12, 1e-8])
def test_a_flat_direction_remembers_the_run(curvature):
    assert horizon(np.array([curvature]), np.ones(1), 0.1, 500) == pytest.approx(500)


def test_the_run_caps_the_horizon_and_faster_rates_shorten_it():
    rates = np.logspace(-6, -1, 30)
    found = [horizon(CURVATURE, NOISE, rate, 300) for rate in rates]
    assert all(0 < tau <= 300 for tau in found)
    assert found[0] == pytest.approx(300, rel=1e-3)
    assert found[-1] < 100


def test_directions_without_noise_do_not_count():
    with_idle = horizon(np.append(CURVATURE, 7.0), np.append(NOISE, 0.0), 0.1, 300)
    assert with_idle == pytest.approx(horizon(CURVATURE, NOISE, 0.1, 300), rel=1e-12)


def test_spectra_add_up():
    """Two halves of the directions, apart and together."""
    whole = Sums.of(CURVATURE, MET, 3.0)
    halves = [Sums.of(CURVATURE[part], MET[part], 3.0) for part in (slice(2), slice(2, None))]
    together = Sums.mean(halves)
    assert 2 * together.kept == pytest.approx(whole.kept)
    assert 2 * together.drawn == pytest.approx(whole.drawn)
    assert together.part == pytest.approx(whole.part)
    assert halves[0].part < whole.part < halves[1].part
