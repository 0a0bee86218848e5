"""Lanczos' rules against sums over spectra that are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headwater.learning.estimation.horizon import settle
from headwater.learning.estimation.lanczos import Lanczos
from headwater.planner.horizon import Sums


def known(size, largest=100.0, dtype=torch.float32, seed=0):
    """A diagonal matrix with eigenvalues over six decades, and a start on all of them."""
    values = largest * np.logspace(-6, 0, size)
    draw = np.random.default_rng(seed)
    start = draw.normal(size=size) * values**-0.25
    diagonal = torch.from_numpy(values).to(dtype)
    return values, start, Lanczos(lambda v: diagonal * v, torch.from_numpy(start).to(dtype))


def stepped(lanczos, steps):
    for _ in range(steps):
        lanczos.step()
    return lanczos


@pytest.mark.parametrize("steps", [1, 3, 8])
def test_gauss_is_exact_for_polynomials_of_twice_its_nodes_and_radau_of_one_more(steps):
    values, start, lanczos = known(40, dtype=torch.float64)
    stepped(lanczos, steps)
    for rule, degree in ((lanczos.gauss(), 2 * steps - 1), (lanczos.radau(), 2 * steps)):
        for power in range(degree + 1):
            exact = (start**2 * values**power).sum()
            nodes, weights = rule
            assert weights @ nodes**power == pytest.approx(exact, rel=1e-9)


def test_radau_has_a_node_at_zero():
    nodes, _ = stepped(known(40, dtype=torch.float64)[2], 6).radau()
    assert len(nodes) == 7
    assert abs(nodes.min()) < 1e-9 * nodes.max()


@pytest.mark.parametrize("learned", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("steps", range(1, 16))
def test_the_noise_s_sum_lies_between_the_rules(steps, learned):
    """Derivatives of 1 − e^−x take turns in sign, so that the rules are bounds, whatever steps."""
    values, start, lanczos = known(40, dtype=torch.float64, seed=steps)
    stepped(lanczos, steps)
    exact = Sums.of(values, start**2, learned).drawn
    above, below = (Sums.of(*rule, learned).drawn for rule in (lanczos.gauss(), lanczos.radau()))
    assert below <= exact * (1 + 1e-12)
    assert exact <= above * (1 + 1e-12)


@pytest.mark.parametrize("learned", [0.1, 1.0, 10.0, 30.0])
def test_settled_is_right_and_says_how_far_it_may_be_off(learned):
    values, start, lanczos = known(2000, dtype=torch.float64)
    exact = Sums.of(values, start**2, learned).part
    found = settle(lanczos, learned, steps=60)
    assert found.doubt <= 0.1 * found.sums.part
    assert abs(found.sums.part - exact) <= found.doubt
    assert abs(found.sums.part - exact) <= 0.05 * exact


def test_a_million_numbers_of_single_precision_are_enough():
    """Lengths summed in single precision put the answer off by tenths, thirty steps on."""
    values, start, lanczos = known(1_000_000)
    assert settle(lanczos, 10.0, steps=60).sums.part == pytest.approx(
        Sums.of(values, start**2, 10.0).part, rel=0.02
    )


def test_all_directions_found_is_exact_and_ends_it():
    values = np.array([1.0, 2.0, 5.0])
    diagonal = torch.from_numpy(np.repeat(values, 4))
    lanczos = Lanczos(lambda v: diagonal * v, torch.ones(12, dtype=torch.float64))
    found = settle(lanczos, 1e-9, steps=1)  # flat: settled at once, and not complete
    assert not lanczos.complete
    assert found.sums.part == pytest.approx(1.0)
    stepped(lanczos, 2)
    assert lanczos.complete
    for nodes, weights in (lanczos.gauss(), lanczos.radau()):
        np.testing.assert_allclose(nodes, values)
        np.testing.assert_allclose(weights, 4.0)


def test_a_start_of_zeros_is_complete_and_finds_nothing():
    lanczos = Lanczos(lambda v: v, torch.zeros(3))
    assert lanczos.complete
    found = settle(lanczos, 1.0, steps=5)
    assert (found.sums.part, found.doubt) == (1.0, 0.0)


def test_steps_that_are_too_few_say_so():
    values, start, lanczos = known(2000, dtype=torch.float64)
    found = settle(lanczos, 100.0, steps=4)
    exact = Sums.of(values, start**2, 100.0).part
    assert found.doubt > 0.1 * found.sums.part
    assert abs(found.sums.part - exact) <= found.doubt
