"""What the planner refuses, and that it names the setting, the client and the value."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest

from headwater.errors import InputError
from headwater.planner import (
    Constants,
    bound,
    bound_terms,
    effective_samples,
    minimise,
    optimal_for_target,
    optimal_importance,
)

PRICES = Constants(c0=0.0, c1=1.0, few_samples=0.5, discrepancy=0.1)
DEFINITIONS = {
    "gradient_noise": 1,
    "diameter": 1,
    "rounds": 9,
    "total_samples": 100,
    "fresh_clients": 4,
}


def refusal(text):
    return pytest.raises(InputError, match=re.escape(text))


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        ([3, 0, 2], "samples of client 1 is 0"),
        ([3, 2, -5], "samples of client 2 is -5"),
        ([math.nan, 1, 2], "samples of client 0 is nan"),
        ([1, math.inf, 2], "samples of client 1 is inf"),
        ([1, "two", 2], "samples of client 1 is 'two', which is not a number"),
        ([1, 2, "3"], "samples of client 2 is '3', which is not a number"),
        ([1, None, 2], "samples of client 1 is None"),
        ([True, False, True], "samples of client 0 is True"),
        ([1, 2j, 3], "samples of client 1 is 2j"),
        (np.array(["1", "x", "3"]), "samples of client 0 is"),
        ([[1, 2], [3]], "samples must be a flat list of numbers"),
        ([[1, 2, 3]], "samples has shape (1, 3)"),
        (7, "samples has shape ()"),
        ([], "samples has shape (0,)"),
    ],
)
def test_counts(samples, text):
    fresh = [True, False, True]
    for attempt in (
        lambda: optimal_importance(samples, fresh, 0.1),
        lambda: minimise([1.0, 0.0, 1.0], samples, 0.1),
        lambda: bound([0.5, 0.25, 0.25], samples, fresh),
        lambda: bound_terms([0.5, 0.25, 0.25], samples, fresh, PRICES),
        lambda: optimal_for_target(samples, fresh, [0.5, 0.25, 0.25], PRICES),
        lambda: effective_samples([0.5, 0.25, 0.25], samples),
    ):
        with refusal(text):
            attempt()


def test_counts_that_float64_cannot_hold_together():
    with refusal("samples of client 1 is less than 1e-150 of all samples"):
        optimal_importance([1e200, 1, 1], [True, False, True], 0.1)


@pytest.mark.parametrize("ratio", [-0.1, -math.inf, math.nan, "0.1", None, True])
def test_ratio(ratio):
    with refusal("ratio is"):
        optimal_importance([1, 2], [True, False], ratio)
    with refusal("ratio is"):
        minimise([1.0, 0.0], [1, 2], ratio)


@pytest.mark.parametrize(
    ("fresh", "text"),
    [
        ([True], "fresh has shape (1,), samples has 2 clients"),
        ([True, False, True], "fresh has shape (3,)"),
        ([[True, False]], "fresh has shape (1, 2)"),
        ([1, 0], "fresh holds int64 values"),
        ([0.0, 1.0], "fresh holds float64 values"),
        (["yes", "no"], "give True for a fresh and False for a historical client"),
        ([], "fresh holds"),
    ],
)
def test_mask(fresh, text):
    with refusal(text):
        optimal_importance([1, 2], fresh, 0.1)
    with refusal(text):
        bound([0.5, 0.5], [1, 2], fresh)


@pytest.mark.parametrize(
    ("noise", "text"),
    [
        ([1.0], "noise has 1 entries, samples has 2 clients"),
        ([1.0, -0.5], "noise of client 1 is -0.5"),
        ([math.nan, 0.5], "noise of client 0 is nan"),
        ([0.5, math.inf], "noise of client 1 is inf"),
        ([0.5, "much"], "noise of client 1 is 'much'"),
        ([True, False, True], "fresh has shape (3,)"),
    ],
)
def test_noise(noise, text):
    with refusal(text):
        minimise(noise, [1, 2], 0.1)
    with refusal(text):
        optimal_for_target([1, 2], noise, [0.5, 0.5], PRICES)


@pytest.mark.parametrize(
    ("shares", "text"),
    [
        ([0.5, 0.4], "sums to 0.9; the shares of all clients must sum to 1"),
        ([0.5, 0.5001], "sums to 1.0001"),
        ([1.5, -0.5], "of client 1 is -0.5"),
        ([math.nan, 1.0], "of client 0 is nan"),
        ([1.0], "has 1 entries, samples has 2 clients"),
        (["all", 0.0], "of client 0 is 'all'"),
    ],
)
def test_importance_and_target(shares, text):
    with refusal(f"importance {text}"):
        bound(shares, [1, 2], [True, False])
    with refusal(f"importance {text}"):
        effective_samples(shares, [1, 2])
    with refusal(f"target {text}"):
        optimal_for_target([1, 2], [True, False], shares, PRICES)
    with refusal(f"target {text}"):
        bound_terms([0.5, 0.5], [1, 2], [True, False], PRICES, target=shares)


def test_shares_in_single_precision_pass():
    third = np.full(3, 1 / 3, dtype=np.float32)
    assert bound(third, [1, 1, 1], [False] * 3, c2=1.0) == pytest.approx(1, rel=1e-6)
    best = optimal_for_target([1, 1, 1], [False] * 3, third, PRICES)
    assert best.importance == pytest.approx([1 / 3] * 3, rel=1e-7)


@pytest.mark.parametrize("name", ["c1", "c2"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "1"])
def test_prices_of_psi(name, value):
    with refusal(f"{name} is"):
        bound([0.5, 0.5], [1, 2], [True, False], **{name: value})


@pytest.mark.parametrize("name", ["c0", "c1", "few_samples", "discrepancy"])
def test_constants(name):
    plain = {"c0": 0.0, "c1": 1.0, "few_samples": 1.0, "discrepancy": 1.0}
    with refusal(f"{name} is nan"):
        Constants(**plain | {name: math.nan})


def test_c0_may_be_negative_but_finite():
    assert bound([1.0], [1], [False], c0=-1.0, c2=0.5) == -0.5
    with refusal("c0 is inf"):
        bound([1.0], [1], [False], c0=math.inf)


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({}, "give either vc_dimension or parameters"),
        (
            {"vc_dimension": 3, "parameters": 12},
            "give either vc_dimension or parameters, and not both",
        ),
        ({"vc_dimension": 3}, "give either discrepancy or loss_bound"),
        (
            {"vc_dimension": 3, "discrepancy": 0.0, "loss_bound": 1.0},
            "give either discrepancy or loss_bound",
        ),
        ({"vc_dimension": 0, "discrepancy": 0.0}, "vc_dimension is 0"),
        ({"parameters": 0, "discrepancy": 0.0}, "parameters is 0"),
        ({"vc_dimension": 3, "loss_bound": -1.0}, "loss_bound is -1.0"),
        ({"vc_dimension": 300, "discrepancy": 0.0}, "needs at least as many samples"),
        ({"vc_dimension": 3, "discrepancy": 0.0, "rounds": 0}, "rounds is 0"),
        ({"vc_dimension": 3, "discrepancy": 0.0, "diameter": -1}, "diameter is -1"),
        (
            {"vc_dimension": 3, "discrepancy": 0.0, "gradient_noise": math.nan},
            "gradient_noise is nan",
        ),
        (
            {"vc_dimension": 3, "discrepancy": 0.0, "total_samples": "many"},
            "total_samples is 'many'",
        ),
    ],
)
def test_definitions(extra, text):
    with refusal(text):
        Constants.from_definitions(**(DEFINITIONS | extra))


@pytest.mark.parametrize(
    "name", ["loss_bound", "gradient_norm", "diameter", "parameters", "total_samples"]
)
def test_approximation(name):
    plain = {
        "loss_bound": 1,
        "gradient_norm": 1,
        "diameter": 1,
        "parameters": 9,
        "total_samples": 9,
        "fresh_clients": 1,
    }
    with refusal(f"{name} is -1"):
        Constants.approximate(**plain | {name: -1})


def test_counts_of_every_kind_of_number_pass():
    for samples in (
        [1, 3],
        (1.0, 3.0),
        np.array([1, 3], dtype=np.uint8),
        np.array([1, 3], dtype=np.float32),
        [1, 3.0],
    ):
        assert optimal_importance(samples, [False, False], 0.1).importance.tolist() == [0.25, 0.75]
    beyond_int64 = optimal_importance([10**30, 3 * 10**30], [False, False], 0.1)
    assert beyond_int64.importance == pytest.approx([0.25, 0.75], rel=1e-15)


@pytest.mark.parametrize("ratio", [5e-324, 1e-310, 1e-300])
def test_a_ratio_next_to_zero_has_the_limits_answer(ratio):
    """Without a quiet client noise alone decides, p ∝ 1/v; with one it gets everything."""
    noisy = optimal_importance([100, 100, 400], [True, True, True], ratio)
    assert noisy.importance == pytest.approx([1 / 3] * 3, rel=1e-15)
    quiet = optimal_importance([100, 100, 400], [False, True, True], ratio)
    assert quiet.importance.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("ratio", [10**400, True, np.bool_(True), "0.15", None, 1j])
def test_a_ratio_that_is_no_number(ratio):
    with refusal("ratio is"):
        optimal_importance([1, 2], [True, False], ratio)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int8, np.uint64])
def test_numbers_of_numpy_are_numbers(kind):
    plain = optimal_importance([1, 2], [True, False], 1.0).importance
    assert (optimal_importance([1, 2], [True, False], kind(1)).importance == plain).all()
    assert Constants(kind(0), kind(1), kind(1), kind(0)).ratio == 1
    assert bound([0.5, 0.5], [1, 2], [True, False], kind(0), kind(1), kind(1)) > 0


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        ([10**400, 1], "samples of client 0 is beyond the range of float64"),
        ([1, True], "samples of client 1 is True"),
        ((np.bool_(True), 2), "samples of client 0 is np.True_"),
    ],
)
def test_counts_that_only_look_like_numbers(samples, text):
    with refusal(text):
        optimal_importance(samples, [False, True], 1.0)


@pytest.mark.parametrize("c0", ["x", True, 10**400])
def test_c0_is_a_number(c0):
    with refusal("c0 is"):
        bound([1.0], [1], [False], c0=c0)
    with refusal("c0 is"):
        Constants(c0, 1.0, 1.0, 1.0)


EXTREMES = (0.0, 5e-324, 1e-150, 1.0, 1e150, 1e300, 1.7e308)


@pytest.mark.parametrize("prices", list(itertools.product(EXTREMES, repeat=3)))
@pytest.mark.parametrize("noise", [[0.0, 0.5, 1.0], [0.3, 0.5, 1.0], [0.0, 0.0, 0.0]])
def test_prices_of_any_size_have_their_limits_answer(prices, noise):
    target = np.array([0.2, 0.3, 0.5])
    best = optimal_for_target([100, 100, 400], noise, target, Constants(0.0, *prices))
    assert best.importance.sum() == pytest.approx(1, rel=1e-12)
    assert (best.importance >= 0).all()
    c1, few, discrepancy = prices
    if discrepancy > 1e100 * max(c1, few):
        assert best.importance == pytest.approx(target, rel=1e-12)
    if few > 1e100 * max(c1, discrepancy):
        assert best.importance == pytest.approx([1 / 6, 1 / 6, 2 / 3], rel=1e-12)
