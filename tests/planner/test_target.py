"""The exact minimiser of the general bound, where the distance to a target makes clients stick at
it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from certificates import Problem, by_clarabel, certify
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.planner import Constants, bound_terms, minimise, optimal_for_target
from headwater.planner.exchange import settle


@st.composite
def problems(draw, most=12, widest=9.0):
    """Counts, noise and targets over up to nine orders of magnitude, prices over as many; terms may
    be missing."""
    count = draw(st.integers(1, most))
    orders = draw(st.sampled_from([0.0, 1.0, widest / 2, widest]))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    samples = 10.0 ** random.uniform(0, orders, count) * random.uniform(1, 2, count)
    noise = (random.random(count) < draw(st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0]))).astype(float)
    if draw(st.booleans()):
        noise *= 10.0 ** random.uniform(-orders, 0, count)
    target = 10.0 ** random.uniform(-orders, 0, count) * (random.random(count) < 0.8)
    if draw(st.booleans()):
        target = samples * (random.random(count) < 0.8)
    target[random.integers(count)] += not target.any()
    c1, c2 = 10.0 ** draw(st.floats(-2, 2)), 10.0 ** draw(st.floats(-4, 2))
    missing = draw(st.sampled_from(["", "", "", "", "", "c1", "c2"]))
    price = draw(st.just(0.0) | st.floats(-4, 1 + orders / 2).map(lambda exponent: 10.0**exponent))
    return Problem(
        samples, noise, c1 * (missing != "c1"), c2 * (missing != "c2"), price, target / target.sum()
    )


def solve(problem):
    constants = Constants(
        c0=0.0, c1=problem.c1, few_samples=problem.c2, discrepancy=problem.price / 2
    )
    return optimal_for_target(problem.samples, problem.noise, problem.target, constants)


@settings(max_examples=1200, deadline=None)
@given(problems())
def test_certificate_of_optimality(problem):
    best = solve(problem)
    assert certify(problem, best.importance).holds()
    rounding = 1e-15 * problem.price
    assert best.terms.total == pytest.approx(
        float(problem.value(best.importance)), rel=1e-12, abs=rounding
    )
    assert best.historical == pytest.approx(best.importance[problem.noise == 0].sum(), abs=1e-13)


@pytest.mark.parametrize("seed", range(50))
def test_agreement_with_clarabel(seed):
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 9))
    noise = (random.random(count) < random.choice([0, 0.5, 1])) * 10 ** random.uniform(-2, 0, count)
    target = random.dirichlet(np.ones(count)) * (np.arange(count) != random.integers(2 * count))
    c2, price = 10 ** random.uniform(-2, 1), 10 ** random.uniform(-3, 1)
    problem = Problem(
        10 ** random.uniform(0, 2, count), noise, 1.0, c2, price, target / target.sum()
    )
    value, theirs = by_clarabel(problem)
    ours = solve(problem)
    assert ours.terms.total == pytest.approx(value, rel=1e-7)
    assert problem.value(ours.importance) <= problem.value(theirs) * (1 + 1e-14)


def test_a_wrong_answer_has_no_certificate():
    target = np.array([0.2, 0.3, 0.5])
    problem = Problem(
        np.array([100.0, 100.0, 400.0]), np.array([0.0, 0.0, 1.0]), 1.0, 0.5, 0.3, target
    )
    right = solve(problem).importance
    assert right[1] == target[1]
    assert certify(problem, right).holds()
    for direction in ([1, -1, 0], [0, 1, -1], [1, 0, -1]):
        assert not certify(problem, right + 1e-7 * np.array(direction)).holds()
        assert not certify(problem, right - 1e-7 * np.array(direction)).holds()
    assert not certify(problem, target).holds()


def test_two_clients_by_hand():
    # No noise, equal sizes, α = (1, 0), p for the second client: r·√(2(1 − p)² + 2p²) + 2Kp, whose
    # derivative r·(4p − 2)/√(2(1 − p)² + 2p²) + 2K is negative at p = 0 iff K < r/√2, and vanishes
    # at p = ½ − ½·K/√(r² − K²).
    ratio, prices = 1.0, [0.1, 0.3, 0.6, 0.8, 2.0]
    for price in prices:
        moved = (
            0.5 - 0.5 * price / math.sqrt(ratio**2 - price**2)
            if price < ratio / math.sqrt(2)
            else 0.0
        )
        best = optimal_for_target(
            [5, 5], [False, False], [1, 0], Constants(0.0, 1.0, ratio, price / 2)
        )
        assert best.importance == pytest.approx([1 - moved, moved], rel=1e-12)


@settings(max_examples=200, deadline=None)
@given(problems())
def test_without_discrepancy_it_is_the_plain_minimiser(problem):
    if problem.c1 == 0 or problem.c2 == 0:
        return
    free = Problem(problem.samples, problem.noise, problem.c1, problem.c2, 0.0, problem.target)
    plain = minimise(problem.noise, problem.samples, problem.c2 / problem.c1)
    assert solve(free).importance == pytest.approx(plain.importance, rel=1e-7, abs=1e-11)
    assert solve(free).terms.total == pytest.approx(problem.c1 * plain.value, rel=1e-13)


def test_a_large_discrepancy_keeps_everybody_at_the_target():
    target = np.array([0.5, 0.0, 0.3, 0.2])
    best = optimal_for_target(
        [1, 2, 3, 4], [True, True, False, False], target, Constants(0.0, 1.0, 0.5, 50.0)
    )
    assert best.importance == pytest.approx(target, rel=1e-15)
    assert best.terms.discrepancy == pytest.approx(0, abs=1e-13)


def test_more_discrepancy_never_moves_further_from_the_target():
    samples, fresh, target = (
        [1, 2, 3, 4, 9],
        [True, False, True, False, True],
        np.array([0.4, 0.1, 0.2, 0.1, 0.2]),
    )
    distances = [
        np.abs(
            optimal_for_target(samples, fresh, target, Constants(0.0, 1.0, 0.6, disc)).importance
            - target
        ).sum()
        for disc in np.linspace(0, 1, 60)
    ]
    assert (np.diff(distances) <= 1e-12).all()
    assert distances[0] > 0.1
    assert distances[-1] == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("discrepancy", [0.0, 0.05, 0.2, 0.4, 3.0])
@pytest.mark.parametrize("fresh", [[True, True, False, False, True], [True] * 5])
def test_without_size_term_it_is_the_limit(fresh, discrepancy):
    samples, target = [1, 2, 3, 4, 9], [0.4, 0.1, 0.2, 0.1, 0.2]
    zero = optimal_for_target(samples, fresh, target, Constants(0.0, 1.0, 0.0, discrepancy))
    small = optimal_for_target(samples, fresh, target, Constants(0.0, 1.0, 1e-11, discrepancy))
    assert zero.importance == pytest.approx(small.importance, abs=1e-9)


def test_only_the_distance_counts_without_noise_and_size_terms():
    target = [0.7, 0.1, 0.2]
    best = optimal_for_target([1, 2, 3], [True, False, True], target, Constants(0.0, 0.0, 0.0, 1.0))
    assert best.importance.tolist() == target


def test_one_client_gets_everything():
    for fresh in (True, False):
        best = optimal_for_target([3], [fresh], [1.0], Constants(0.5, 2.0, 0.25, 1.0))
        assert best.importance.tolist() == [1.0]
        assert best.terms.total == 0.5 + 2.0 * fresh + 0.25


def test_many_clients_have_the_same_certificate():
    random = np.random.default_rng(2)
    samples = np.floor(10 ** random.uniform(0, 6, 100_000)) + 1
    noise = (random.random(100_000) < 0.5) * random.uniform(0.1, 1, 100_000)
    target = samples * random.uniform(0, 1, 100_000)
    problem = Problem(samples, noise, 10.0, 0.2, 0.05, target / target.sum())
    best = solve(problem)
    assert certify(problem, best.importance).holds()
    stuck = np.isclose(best.importance, problem.target, rtol=1e-14, atol=0)
    assert 0.1 < stuck.mean() < 0.9  # the interesting case: some stick, some give, some receive
    assert (best.importance > problem.target * 1.01).any()
    assert (best.importance < problem.target * 0.99).any()


def test_terms_are_those_of_the_bound():
    samples, fresh, target = [10, 20, 30], [True, False, True], [0.5, 0.25, 0.25]
    constants = Constants(0.1, 1.0, 0.5, 0.2)
    best = optimal_for_target(samples, fresh, target, constants)
    assert best.terms == bound_terms(best.importance, samples, fresh, constants, target)


def test_levels_where_some_clients_can_have_nothing():
    # The second client must give its 0.5; the others receive it in proportion to their weights or
    # up to a level.
    target, weight = np.array([0.4, 0.5, 0.1]), np.array([1.0, 0.0, 1.0])
    for price, expected in ((0.0, [0.5, 0.0, 0.5]), (10.0, [0.5, 0.0, 0.5])):
        assert settle(target, weight, price).importance(target, weight) == pytest.approx(expected)
    uneven = np.array([0.8, 0.1, 0.1])
    assert settle(uneven, weight, 10.0).importance(uneven, weight) == pytest.approx([0.8, 0.0, 0.2])
