"""ψ and its terms, its constants, and what the paper's numbers say about them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headwater.planner import (
    Constants,
    bound,
    bound_terms,
    effective_samples,
    optimal_importance,
)

SAMPLES, FRESH, IMPORTANCE = [100, 300, 400, 200], [False, False, True, True], [0.4, 0.1, 0.3, 0.2]


def two_groups(historical, fresh, share):
    """Equal clients within each of two groups, the historical ones with this share of all
    samples."""
    samples = np.r_[np.full(historical, share / historical), np.full(fresh, (1 - share) / fresh)]
    return samples, np.arange(historical + fresh) >= historical


def test_psi_by_hand():
    # n = (.1, .3, .4, .2): Σ_fresh p² = .09 + .04, Σ p²/n = 1.6 + 1/30 + .225 + .2
    by_hand = 0.7 + 2 * math.sqrt(0.13) + 0.5 * math.sqrt(1.6 + 1 / 30 + 0.225 + 0.2)
    assert bound(IMPORTANCE, SAMPLES, FRESH, c0=0.7, c1=2.0, c2=0.5) == pytest.approx(
        by_hand, rel=1e-14
    )


def test_defaults_are_the_ratio_of_cifar10():
    assert bound(IMPORTANCE, SAMPLES, FRESH) == bound(IMPORTANCE, SAMPLES, FRESH, 0.0, 1.0, 0.15)


def test_terms_add_up_to_psi():
    constants = Constants(c0=0.3, c1=2.0, few_samples=0.4, discrepancy=0.25)
    terms = bound_terms(IMPORTANCE, SAMPLES, FRESH, constants)
    assert terms.total == pytest.approx(
        bound(IMPORTANCE, SAMPLES, FRESH, 0.3, 2.0, constants.c2), rel=1e-15
    )
    assert terms.discrepancy == pytest.approx(terms.few_samples * 0.5 / 0.4, rel=1e-15)


def test_terms_for_a_target_by_hand():
    constants = Constants(c0=0.3, c1=2.0, few_samples=0.4, discrepancy=0.25)
    terms = bound_terms(IMPORTANCE, SAMPLES, FRESH, constants, target=[0.25] * 4)
    assert terms.constant == 0.3
    assert terms.noise == pytest.approx(2 * math.sqrt(0.13), rel=1e-15)
    assert terms.few_samples == pytest.approx(
        0.4 * math.sqrt(1000 / effective_samples(IMPORTANCE, SAMPLES))
    )
    assert terms.discrepancy == pytest.approx(2 * 0.25 * (0.15 + 0.15 + 0.05 + 0.05))


def test_the_general_bound_is_tighter_at_the_target_n():
    constants = Constants(c0=0.0, c1=1.0, few_samples=0.4, discrepancy=0.25)
    random = np.random.default_rng(0)
    for _ in range(200):
        samples, importance = random.uniform(1, 9, 6), random.dirichlet(np.ones(6))
        special = bound_terms(importance, samples, random.random(6) < 0.5, constants)
        general = bound_terms(
            importance, samples, [True] * 6, constants, target=samples / samples.sum()
        )
        assert (
            general.discrepancy <= special.discrepancy
        )  # ‖p − n‖₁ ≤ √(Σ p²/n − 1), as the paper shows


def test_any_noise_in_place_of_the_mask():
    constants = Constants(c0=0.0, c1=3.0, few_samples=0.4, discrepancy=0.25)
    terms = bound_terms(IMPORTANCE, SAMPLES, [0.0, 0.5, 2.0, 1.0], constants)
    assert terms.noise == pytest.approx(3 * math.sqrt(0.5 * 0.01 + 2 * 0.09 + 0.04), rel=1e-15)


def test_psi_of_many_clients_is_summed_without_loss():
    random = np.random.default_rng(3)
    samples, importance = (
        10 ** random.uniform(0, 9, 300_000),
        random.dirichlet(np.full(300_000, 0.5)),
    )
    fresh = random.random(300_000) < 0.5
    wide = importance.astype(np.longdouble)
    sizes = samples / samples.astype(np.longdouble).sum()
    exact = np.sqrt((wide[fresh] ** 2).sum()) + np.longdouble(0.15) * np.sqrt(
        (wide**2 / sizes).sum()
    )
    assert abs(bound(importance, samples, fresh) - exact) <= 1e-14 * exact


def test_effective_samples_are_at_most_all_samples():
    assert effective_samples([0.1, 0.3, 0.4, 0.2], SAMPLES) == pytest.approx(1000, rel=1e-14)
    assert effective_samples(IMPORTANCE, SAMPLES) < 1000


def test_constants_by_hand():
    given = {
        "gradient_noise": 3.0,
        "diameter": 0.5,
        "rounds": 16,
        "total_samples": 800,
        "fresh_clients": 9,
    }
    constants = Constants.from_definitions(**given, vc_dimension=8, discrepancy=0.1, c0=0.25)
    assert constants.c0 == 0.25
    assert constants.c1 == pytest.approx(3 * 3 * (0.5 + 2 / 4), rel=1e-15)
    assert constants.few_samples == pytest.approx(4 * math.sqrt(1 + math.log(100)) / 10, rel=1e-15)
    assert constants.c2 == pytest.approx(constants.few_samples + 0.2, rel=1e-15)
    assert constants.ratio == pytest.approx(constants.c2 / 9, rel=1e-15)
    assert Constants.from_definitions(**given, parameters=32, loss_bound=0.1, c0=0.25) == constants


def test_the_approximation_follows_from_the_definitions():
    # σ0 = 2G, T → ∞, VC = d/4, disc = B, and N = VC, where the logarithm vanishes.
    exact = Constants.from_definitions(
        gradient_noise=2 * 5.5,
        diameter=1.5,
        rounds=1e30,
        total_samples=250,
        fresh_clients=4,
        parameters=1000,
        loss_bound=2,
    )
    approximate = Constants.approximate(
        loss_bound=2,
        gradient_norm=5.5,
        diameter=1.5,
        parameters=1000,
        total_samples=250,
        fresh_clients=4,
    )
    assert exact.ratio == pytest.approx(approximate.ratio, rel=1e-12)
    assert exact.c1 == pytest.approx(approximate.c1, rel=1e-12)
    assert approximate.ratio == pytest.approx((2 + math.sqrt(4)) / (5.5 * 1.5 * 2), rel=1e-15)


def test_no_fresh_client_makes_the_ratio_infinite():
    constants = Constants.approximate(
        loss_bound=1, gradient_norm=1, diameter=1, parameters=9, total_samples=9, fresh_clients=0
    )
    assert constants.ratio == math.inf


@pytest.mark.parametrize(
    ("loss_bound", "gradient_norm", "diameter", "parameters", "total", "fresh", "ratio"),
    [
        (2.3, 5.5, 1.0, 3_353_034, 50_000, 25, 0.381),  # CIFAR-10; the paper prints 0.150
        (4.6, 4.7, 1.0, 3_537_444, 50_000, 25, 0.554),  # CIFAR-100; the paper prints 0.284
        (0.7, 0.4, 1.9, 21, 200, 1, 1.347),  # Synthetic; the paper prints 0.092
    ],
)
def test_ratios_from_the_reported_constants(
    loss_bound, gradient_norm, diameter, parameters, total, fresh, ratio
):
    constants = Constants.approximate(
        loss_bound=loss_bound,
        gradient_norm=gradient_norm,
        diameter=diameter,
        parameters=parameters,
        total_samples=total,
        fresh_clients=fresh,
    )
    assert round(constants.ratio, 3) == ratio


@pytest.mark.parametrize(
    ("ratio", "historical", "fresh", "shares"),
    [
        (0.150, 25, 25, [0.1162, 0.4522, 0.9472]),  # CIFAR-10
        (0.284, 25, 25, [0.0839, 0.3174, 0.6881]),  # CIFAR-100
    ],
)
def test_historical_shares_of_cifar(ratio, historical, fresh, shares):
    found = [
        optimal_importance(*two_groups(historical, fresh, part), ratio).historical
        for part in (0.05, 0.2, 0.5)
    ]
    assert [round(share, 4) for share in found] == shares


@pytest.mark.parametrize("part", [0.05, 0.2, 0.5])
def test_historical_share_of_femnist_is_all(part):
    historical = round(3597 * part)
    assert (
        optimal_importance(*two_groups(historical, 3597 - historical, part), 0.001).historical
        == 1.0
    )


def test_where_the_paper_prints_other_shares_than_its_formula_gives():
    synthetic = two_groups(10, 1, 0.2)
    assert optimal_importance(*synthetic, 0.09).historical == 1.0  # printed: 0.20
    shakespeare = two_groups(40, 733, 0.2)
    assert round(optimal_importance(*shakespeare, 0.064).historical, 2) == 0.29  # printed: 1.00
    as_one = two_groups(40, 1, 0.2)
    assert optimal_importance(*as_one, 0.064).historical == 1.0
