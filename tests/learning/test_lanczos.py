"""Lanczos' rules against sums over spectra that are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headwater.errors import InputError
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
def test_gauss_is_exact_for_polynomials_of_twice_its_nodes_and_radau_of_one_less(steps):
    values, start, lanczos = known(40, dtype=torch.float64)
    stepped(lanczos, steps)
    for rule, degree in ((lanczos.gauss(), 2 * steps - 1), (lanczos.radau(), 2 * steps - 2)):
        nodes, weights = rule
        assert len(nodes) == steps
        for power in range(degree + 1):
            exact = (start**2 * values ** (power + 1)).sum()
            assert weights @ nodes**power == pytest.approx(exact, rel=1e-9)


def test_radau_has_a_node_at_zero():
    nodes, _ = stepped(known(40, dtype=torch.float64)[2], 6).radau()
    assert abs(nodes.min()) < 1e-9 * nodes.max()


@pytest.mark.parametrize("learned", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("steps", range(1, 16))
def test_both_sums_lie_between_the_rules(steps, learned):
    """Derivatives of g take turns in sign, so that the rules are bounds after any step."""
    values, start, lanczos = known(40, dtype=torch.float64, seed=steps)
    stepped(lanczos, steps)
    exact = Sums.of(values, start**2 * values, learned)
    below, above = (Sums.of(*rule, learned) for rule in (lanczos.gauss(), lanczos.radau()))
    for name in ("kept", "drawn"):
        low, truth, high = (getattr(sums, name) for sums in (below, exact, above))
        assert low <= truth * (1 + 1e-12)
        assert truth <= high * (1 + 1e-12)


def spectrum(values, met, dtype):
    """A diagonal matrix and a start whose squares, times the eigenvalues, are given."""
    values, met = np.asarray(values, float), np.asarray(met, float)
    noise = np.divide(met, values, where=values > 0, out=np.asarray(met, float).copy())
    diagonal = torch.from_numpy(values).to(dtype)
    lanczos = Lanczos(lambda v: diagonal * v, torch.from_numpy(np.sqrt(noise)).to(dtype))
    return Sums.of(values, noise * values, 1.0).part, lanczos


def with_null(mass):
    """Six decades, and directions without any curvature that have most of the noise."""
    values = np.logspace(-4, 3, 50)
    noise = np.append(values / values.sum() * (1 - mass), mass)
    return np.append(values, 0.0), np.append(noise[:-1] * values, mass)


FOOLING = {
    "a steep cluster with nine tenths of the noise": ([1000.0, 1.25], [900.0, 0.125]),
    "one outlier over a flat bulk": (
        np.r_[1e4, np.linspace(0.5, 1.5, 30)],
        np.r_[0.9e4, 0.1 / 30 * np.linspace(0.5, 1.5, 30)],
    ),
    "nine tenths of the noise without curvature": with_null(0.9),
    "all but a thousandth of the noise without curvature": with_null(0.999),
    "columns of many scales": (np.logspace(-6, 0, 60) * 500, np.logspace(-6, 0, 60)),
    "all alike": (np.full(20, 3.0), np.full(20, 3.0)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FOOLING)
def test_spectra_on_which_single_rules_agree_by_chance(name, dtype):
    exact, lanczos = spectrum(*FOOLING[name], dtype)
    found = settle(lanczos, 1.0, steps=60)
    assert found.doubt <= 0.1 * found.sums.part
    assert abs(found.sums.part - exact) <= found.doubt + 1e-4 * exact


@pytest.mark.parametrize("learned", [0.1, 1.0, 10.0, 30.0])
def test_settled_is_right_and_says_how_far_it_may_be_off(learned):
    values, start, lanczos = known(2000, dtype=torch.float64)
    exact = Sums.of(values, start**2 * values, learned).part
    found = settle(lanczos, learned, steps=60)
    assert found.doubt <= 0.1 * found.sums.part
    assert abs(found.sums.part - exact) <= found.doubt


def test_a_million_numbers_of_single_precision_are_enough():
    values, start, lanczos = known(1_000_000)
    assert settle(lanczos, 10.0, steps=60).sums.part == pytest.approx(
        Sums.of(values, start**2 * values, 10.0).part, rel=0.05
    )


def test_inner_products_are_summed_in_double_precision():
    """In single precision a million of them, added to one that is large, would be lost."""
    vector = torch.full((1_000_001,), 1e-4)
    vector[0] = 1.0
    one = Lanczos(lambda v: v, vector)
    one.step()
    assert one.gauss()[1].sum() == pytest.approx(1.01, rel=1e-7)


def test_all_directions_found_is_exact_and_ends_it():
    values = np.array([1.0, 2.0, 5.0])
    diagonal = torch.from_numpy(np.repeat(values, 4))
    lanczos = Lanczos(lambda v: diagonal * v, torch.ones(12, dtype=torch.float64))
    stepped(lanczos, 4)
    assert lanczos.complete
    assert lanczos.ended
    for nodes, weights in (lanczos.gauss(), lanczos.radau()):
        np.testing.assert_allclose(nodes, values)
        np.testing.assert_allclose(weights, 4.0 * values)


def test_without_curvature_nothing_is_forgotten_and_without_noise_nothing_is_known():
    flat = settle(Lanczos(lambda v: 0 * v, torch.ones(3)), 1.0, steps=5)
    assert (flat.sums.part, flat.doubt) == (1.0, 0.0)
    silent = settle(Lanczos(lambda v: v, torch.zeros(3)), 1.0, steps=5)
    assert (silent.sums.part, silent.doubt) == (1.0, 1.0)


def test_a_matrix_that_is_not_positive_is_not_called_exact():
    diagonal = torch.tensor([1.0, 2.0, -0.5])
    lanczos = Lanczos(lambda v: diagonal * v, torch.ones(3))
    stepped(lanczos, 3)
    assert lanczos.ended
    assert not lanczos.complete


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_products_that_are_not_finite_are_refused(wrong):
    with pytest.raises(InputError, match="not finite"):
        Lanczos(lambda v: wrong * v, torch.ones(3)).step()


def test_steps_that_are_too_few_say_so():
    values, start, lanczos = known(2000, dtype=torch.float64)
    found = settle(lanczos, 100.0, steps=4)
    exact = Sums.of(values, start**2 * values, 100.0).part
    assert found.doubt > 0.1 * found.sums.part
    assert abs(found.sums.part - exact) <= found.doubt
