"""The exact minimiser of ψ: certificates of optimality, corners by hand, other solvers, high
precision."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from certificates import Problem, by_clarabel, certify
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.planner import minimise, optimal_importance

RATIOS = st.floats(-9, 9).map(lambda exponent: 10.0**exponent)


@st.composite
def clients(draw, most=12):
    """Sample counts over nine orders of magnitude, and who is fresh; or any noise, over as many."""
    count = draw(st.integers(1, most))
    orders = draw(st.sampled_from([0.0, 1.0, 4.5, 9.0]))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    samples = 10.0 ** random.uniform(0, orders, count) * random.uniform(1, 2, count)
    noise = (random.random(count) < draw(st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0]))).astype(float)
    if draw(st.booleans()):
        noise *= 10.0 ** random.uniform(-orders, 0, count)
    return samples, noise


def corner(samples, noise):
    """The largest ratio at which clients with noise get nothing, √(n_H / Σ 1/v)."""
    noisy = noise > 0
    return math.sqrt(samples[~noisy].sum() / samples.sum() / (1 / noise[noisy]).sum())


@settings(max_examples=2000, deadline=None)
@given(clients(), RATIOS)
def test_certificate_of_optimality(case, ratio):
    samples, noise = case
    best = minimise(noise, samples, ratio)
    problem = Problem(samples, noise, 1.0, ratio)
    assert certify(problem, best.importance).holds()
    assert best.value == pytest.approx(float(problem.value(best.importance)), rel=1e-13)
    assert best.historical == pytest.approx(best.importance[noise == 0].sum(), abs=1e-13)


@settings(max_examples=600, deadline=None)
@given(clients(), st.floats(-16, -0.01), st.sampled_from([-1, 1]))
def test_certificate_next_to_the_corner(case, exponent, side):
    samples, noise = case
    if not (0 < np.count_nonzero(noise) < noise.size):
        samples, noise = np.append(samples, [3.0, 5.0]), np.append(noise, [0.0, 1.0])
    ratio = corner(samples, noise) * (1 + side * 10.0**exponent)
    best = minimise(noise, samples, ratio)
    assert certify(Problem(samples, noise, 1.0, ratio), best.importance).holds()
    if side * 10.0**exponent < -1e-12:
        assert not best.importance[noise > 0].any()
        assert best.historical == 1.0
    if side * 10.0**exponent > 1e-12:
        assert (best.importance > 0).all()


def test_a_wrong_answer_has_no_certificate():
    problem = Problem(np.array([3.0, 5.0, 2.0]), np.array([0.0, 1.0, 1.0]), 1.0, 0.7)
    right = minimise(problem.noise, problem.samples, 0.7).importance
    assert certify(problem, right).holds()
    for direction in ([1, -1, 0], [0, 1, -1], [1, 0, -1]):
        assert not certify(problem, right + 1e-7 * np.array(direction)).holds()
    assert not certify(problem, np.array([1.0, 0.0, 0.0])).holds()
    assert not certify(problem, right * (1 + 1e-9)).holds()


@pytest.mark.parametrize("seed", range(50))
def test_agreement_with_clarabel(seed):
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 9))
    samples = 10 ** random.uniform(0, 2, count)
    noise = (random.random(count) < random.choice([0, 0.5, 1])) * 10 ** random.uniform(-2, 0, count)
    problem = Problem(samples, noise, 1.0, 10 ** random.uniform(-2, 1))
    value, theirs = by_clarabel(problem)
    ours = minimise(noise, samples, problem.c2)
    assert ours.value == pytest.approx(value, rel=1e-7)
    assert problem.value(ours.importance) <= problem.value(theirs) * (1 + 1e-14)
    assert ours.importance == pytest.approx(
        theirs, abs=1e-3
    )  # ψ is flat there: 1e-9 in ψ is 1e-4 in p


def test_mask_and_noise_of_ones_are_the_same():
    samples, fresh = np.array([10.0, 20.0, 30.0]), np.array([False, True, True])
    by_mask, by_noise = (
        optimal_importance(samples, fresh, 0.6),
        minimise(fresh.astype(float), samples, 0.6),
    )
    assert (by_mask.importance == by_noise.importance).all()
    assert (minimise(fresh, samples, 0.6).importance == by_mask.importance).all()


def test_two_clients_by_hand():
    # One client of each kind with half of the samples, p for the fresh one: p + r·√(2(1 − p)² +
    # 2p²), whose derivative 1 + r·(4p − 2)/√(2(1 − p)² + 2p²) vanishes at p = ½ − ½/√(4r² − 1) for
    # r > 1/√2.
    for ratio in (0.75, 1.0, 3.0, 100.0):
        fresh = 0.5 - 0.5 / math.sqrt(4 * ratio**2 - 1)
        best = optimal_importance([7, 7], [False, True], ratio)
        assert best.importance == pytest.approx([1 - fresh, fresh], rel=1e-12)
        assert best.value == pytest.approx(
            fresh + ratio * math.sqrt(2 * (1 - fresh) ** 2 + 2 * fresh**2)
        )


def test_historical_is_optimal_up_to_the_corner_and_not_beyond():
    samples, fresh = [30, 10, 20, 40], [False, False, True, True]
    edge = math.sqrt(0.4 / 2)
    at = optimal_importance(samples, fresh, edge * (1 - 1e-15))
    assert at.importance == pytest.approx([0.75, 0.25, 0.0, 0.0], rel=1e-15)
    assert at.historical == 1.0
    assert at.value == pytest.approx(edge / math.sqrt(0.4))
    assert 0 < 1 - optimal_importance(samples, fresh, edge * (1 + 1e-6)).historical < 1e-4


@pytest.mark.parametrize("ratio", [0.0, 1e-300, 0.3, 1.0, 1e300, math.inf])
def test_without_fresh_clients_sizes_decide(ratio):
    best = optimal_importance([1, 2, 5], [False] * 3, ratio)
    assert best.importance == pytest.approx([0.125, 0.25, 0.625], rel=1e-15)
    assert (best.historical, best.value) == (1.0, pytest.approx(ratio))


def test_only_fresh_clients():
    samples = [1, 2, 5]
    assert optimal_importance(samples, [True] * 3, 0.0).importance == pytest.approx(
        [1 / 3] * 3, rel=1e-15
    )
    assert optimal_importance(samples, [True] * 3, 1e-200).importance == pytest.approx(
        [1 / 3] * 3, rel=1e-15
    )
    assert optimal_importance(samples, [True] * 3, 1e200).importance == pytest.approx(
        [0.125, 0.25, 0.625]
    )
    assert optimal_importance(samples, [True] * 3, 0.5).historical == 0.0
    # Equal sizes: equal importance whatever the ratio, and ψ/c1 = 1/√M + r.
    even = optimal_importance([4] * 9, [True] * 9, 0.5)
    assert even.importance == pytest.approx([1 / 9] * 9, rel=1e-14)
    assert even.value == pytest.approx(1 / 3 + 0.5, rel=1e-14)


def test_ratio_zero_is_the_limit_from_above():
    samples, fresh = [1, 2, 5, 9], [False, True, False, True]
    zero, small = (optimal_importance(samples, fresh, ratio) for ratio in (0.0, 1e-12))
    assert (
        zero.importance.tolist()
        == small.importance.tolist()
        == pytest.approx([1 / 6, 0, 5 / 6, 0], rel=1e-15)
    )
    assert zero.value == 0.0
    # Without any quiet client the noise alone decides: p ∝ 1/v.
    assert minimise([1.0, 2.0, 4.0], [9, 5, 1], 0.0).importance == pytest.approx(
        [4 / 7, 2 / 7, 1 / 7], rel=1e-15
    )


def test_infinite_ratio_is_uniform():
    best = optimal_importance([1, 2, 5], [False, True, True], math.inf)
    assert best.importance.tolist() == [0.125, 0.25, 0.625]
    assert best.value == math.inf
    assert optimal_importance([1, 2, 5], [False, True, True], 1e250).importance.tolist() == [
        0.125,
        0.25,
        0.625,
    ]


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("ratio", [0.0, 0.15, math.inf])
def test_one_client_gets_everything(fresh, ratio):
    best = optimal_importance([3], [fresh], ratio)
    assert best.importance.tolist() == [1.0]
    assert best.historical == (0.0 if fresh else 1.0)
    assert best.value == fresh + ratio


@pytest.mark.parametrize("scale", [1e-200, 1e-9, 1.0, 1e9, 1e300])
def test_only_proportions_of_the_counts_matter(scale):
    samples, fresh = np.array([3.0, 1.0, 4.0, 1.0]), [False, True, True, False]
    plain = optimal_importance(samples, fresh, 0.6)
    assert optimal_importance(samples * scale, fresh, 0.6).importance == pytest.approx(
        plain.importance, rel=1e-14
    )


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e30])
def test_scaling_the_noise_scales_the_ratio(scale):
    noise, samples = np.array([0.0, 1.0, 0.3, 2.0]), [3, 1, 4, 1]
    plain = minimise(noise, samples, 0.6)
    scaled = minimise(noise * scale, samples, 0.6 * math.sqrt(scale))
    assert scaled.importance == pytest.approx(plain.importance, rel=1e-13)
    assert scaled.value == pytest.approx(plain.value * math.sqrt(scale), rel=1e-13)


def by_many_digits(samples, noise, ratio):
    """Minimum in 60 digits, by bisection for a = R/(r·A) in p_m ∝ 1/(a·v_m + 1/n_m)."""
    with mpmath.workdps(60):
        total = mpmath.fsum(map(mpmath.mpf, samples))
        n = [mpmath.mpf(x) / total for x in samples]
        v = [mpmath.mpf(x) for x in noise]

        def terms(a):
            raw = [1 / (a * vm + 1 / nm) for vm, nm in zip(v, n, strict=True)]
            p = [x / mpmath.fsum(raw) for x in raw]
            noisy = mpmath.sqrt(mpmath.fsum(vm * x * x for vm, x in zip(v, p, strict=True)))
            return (
                noisy,
                mpmath.sqrt(mpmath.fsum(x * x / nm for x, nm in zip(p, n, strict=True))),
                p,
            )

        low, high = mpmath.mpf(-200), mpmath.mpf(200)  # of log10(a)
        for _ in range(220):
            middle = (low + high) / 2
            noisy, size, _ = terms(10**middle)
            low, high = (middle, high) if 10**middle * ratio * noisy < size else (low, middle)
        noisy, size, p = terms(10**low)
        return noisy + ratio * size, np.array([float(x) for x in p])


@pytest.mark.parametrize("ratio", [1e-6, 1e-3, 0.15, 3.0, 1e4])
@pytest.mark.parametrize("quiet", [0, 1, 4])
def test_sizes_a_billion_apart_against_sixty_digits(ratio, quiet):
    samples = [1, 10**9, 3, 2 * 10**8, 7 * 10**4, 12, 5 * 10**6, 10**9]
    noise = [0.0] * quiet + [1.0, 1e-9, 0.5, 1.0, 1e-4, 1.0, 1.0, 1.0][quiet:]
    value, importance = by_many_digits(samples, noise, ratio)
    best = minimise(noise, samples, ratio)
    assert abs(best.value - value) <= 1e-14 * value
    assert best.importance == pytest.approx(importance, rel=1e-11, abs=1e-60)


@pytest.mark.parametrize("ratio", [0.001, 0.02, 5.0])
def test_many_clients_have_the_same_certificate(ratio):
    random = np.random.default_rng(1)
    samples = np.floor(10 ** random.uniform(0, 9, 200_000)) + 1
    fresh = random.random(200_000) < 0.7
    best = optimal_importance(samples, fresh, ratio)
    assert certify(Problem(samples, fresh.astype(float), 1.0, ratio), best.importance).holds()
    assert abs(math.fsum(best.importance) - 1) < 1e-12


def test_inputs_are_left_alone():
    samples, noise = np.array([3.0, 5.0, 2.0]), np.array([0.0, 2.0, 1.0])
    minimise(noise, samples, 0.7).importance[:] = 0
    assert samples.tolist() == [3.0, 5.0, 2.0]
    assert noise.tolist() == [0.0, 2.0, 1.0]
