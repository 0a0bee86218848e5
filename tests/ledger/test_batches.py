"""Mini-batches: sizes, no repetition, every subset equally likely, and an unbiased gradient by
enumeration."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import headwater as hw
from headwater.ledger.orders import LocalWork, without_replacement

SEEDS = st.integers(0, 99)


def ledger_of(counts, rounds=3, strategy=None):
    return hw.Ledger.of(counts, hw.Once(), hw.Keep(), strategy or hw.ByMemory(), rounds)


def batches_of(orders, k):
    """The batches of the k-th client, one a local step."""
    mine = slice(orders.offsets[k], orders.offsets[k + 1])
    return orders.samples[:, mine], orders.coefficients[:, mine]


@pytest.mark.parametrize(("size", "batch"), [(n, k) for n in range(1, 7) for k in range(1, n + 1)])
def test_every_subset_is_equally_likely_exactly(size, batch):
    """Exhaustive: step j draws among n − K + j + 1 places, so a grid with that many draws a step is
    the whole probability space. Every subset must come out equally often."""
    places = [size - batch + step + 1 for step in range(batch)]
    grid = np.array(list(product(*[[(i + 0.5) / n for i in range(n)] for n in places])))
    taken = without_replacement(np.full(len(grid), size), grid)
    subsets = Counter(frozenset(row) for row in taken.tolist())
    assert all(len(s) == batch and min(s) >= 0 and max(s) < size for s in subsets)
    assert len(subsets) == comb(size, batch)
    assert len(set(subsets.values())) == 1


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=6),
    st.integers(1, 8),
    st.integers(1, 4),
    SEEDS,
)
def test_batches_have_the_right_size_come_from_memory_and_repeat_nothing(counts, size, steps, seed):
    ledger = ledger_of(counts)
    for round in ledger.rounds():
        orders = LocalWork(steps, size, seed=seed).orders(round)
        assert (
            orders.samples.shape
            == orders.coefficients.shape
            == (steps, sum(min(size, n) for n in counts))
        )
        np.testing.assert_array_equal(orders.shares, round.shares)
        for k, n in enumerate(counts):
            samples, coefficients = batches_of(orders, k)
            assert samples.shape == (steps, min(size, n))
            assert all(len(set(row)) == len(row) for row in samples.tolist())
            assert samples.min() >= ledger.holdings.offsets[k]
            assert samples.max() < ledger.holdings.offsets[k + 1]
            np.testing.assert_allclose(coefficients, 1 / min(size, n), rtol=1e-12)


def test_draws_of_many_rounds_choose_every_subset_equally_often():
    """The draws themselves, not a grid: 2,500 rounds of two clients with two steps, batches of 2 of
    4."""
    ledger, local_work = ledger_of([4, 4], rounds=2500), LocalWork(2, 2, seed=1)
    seen = Counter()
    for orders in local_work.follow(ledger):
        for k in range(2):
            for step, row in enumerate(batches_of(orders, k)[0].tolist()):
                seen[k, step, tuple(sorted(row))] += 1
    assert len(seen) == 2 * 2 * comb(4, 2)
    assert stats.chisquare(list(seen.values())).pvalue > 1e-3


def test_steps_and_clients_draw_independently():
    """Pairs of batches: of two steps of a client, and of two clients in a step, all 36 pairs
    equally often."""
    ledger, local_work = ledger_of([4, 4], rounds=3600), LocalWork(2, 2, seed=5)
    steps, clients = Counter(), Counter()
    for orders in local_work.follow(ledger):
        first, second = (tuple(sorted(row)) for row in batches_of(orders, 0)[0].tolist())
        steps[first, second] += 1
        clients[first, tuple(sorted(batches_of(orders, 1)[0][0].tolist()))] += 1
    for pairs in (steps, clients):
        assert len(pairs) == 36
        assert stats.chisquare(list(pairs.values())).pvalue > 1e-3


@pytest.mark.parametrize(("size", "batch"), [(n, k) for n in range(1, 6) for k in range(1, n + 1)])
def test_the_gradient_is_unbiased_in_exact_arithmetic(size, batch):
    """The mean over all subsets ξ of |I|/|ξ| Σ_{j∈ξ} λ_j/Σλ · g_j is Σ_j λ_j/Σλ · g_j, with
    fractions."""
    weights = [Fraction(3 * i + 1, 7) for i in range(size)]
    gradients = [Fraction((-2) ** i * 5 + i, 3) for i in range(size)]
    wanted = sum(w * g for w, g in zip(weights, gradients, strict=True)) / sum(weights)
    ledger = ledger_of([size], strategy=hw.Given([float(w) for w in weights]))
    coefficients = coefficients_of_every_subset(ledger, batch)
    assert set(coefficients) == set(combinations(range(size), batch))
    total = Fraction(0)
    for subset, values in coefficients.items():
        exact = [Fraction(size, batch) * weights[j] / sum(weights) for j in subset]
        np.testing.assert_allclose(values, [float(e) for e in exact], rtol=1e-12)
        total += sum(e * gradients[j] for e, j in zip(exact, subset, strict=True))
    assert total / len(coefficients) == wanted


def coefficients_of_every_subset(ledger, batch):
    """The coefficients that the plan gives to each batch that it ever draws."""
    found = {}
    for seed in range(400):
        samples, coefficients = batches_of(
            LocalWork(1, batch, seed=seed).orders(ledger.round(1)), 0
        )
        order = np.argsort(samples[0])
        found[tuple(samples[0][order].tolist())] = coefficients[0][order]
    return found


def test_a_batch_as_large_as_the_memory_is_the_memory():
    ledger = ledger_of([3, 5], strategy=hw.Given([1, 2, 3, 1, 1, 1, 1, 4]))
    for size in (None, 5, 99):
        orders = LocalWork(2, size).orders(ledger.round(1))
        assert orders.samples.tolist() == [list(range(8))] * 2
        np.testing.assert_allclose(
            orders.coefficients[1], [1 / 6, 2 / 6, 3 / 6, 1 / 8, 1 / 8, 1 / 8, 1 / 8, 4 / 8]
        )


def test_a_clients_batches_do_not_depend_on_who_else_is_there():
    local_work = LocalWork(3, 2, seed=7)
    full = ledger_of([9, 6, 8, 3])
    some = hw.Ledger.of(
        [9, 6, 8, 3],
        [hw.Window(2, 3), hw.Once(), hw.Once(), hw.Window(2, 2)],
        hw.Keep(),
        hw.ByMemory(),
        rounds=3,
    )
    everyone, without = (local_work.orders(ledger.round(1)) for ledger in (full, some))
    assert without.clients.tolist() == [1, 2]
    for k, client in enumerate(without.clients):
        np.testing.assert_array_equal(batches_of(without, k)[0], batches_of(everyone, client)[0])
    fewer = local_work.orders(ledger_of([9, 6]).round(1))
    np.testing.assert_array_equal(batches_of(fewer, 1)[0], batches_of(everyone, 1)[0])


def test_the_same_round_draws_the_same_and_another_draws_anew():
    ledger, local_work = ledger_of([40], rounds=4), LocalWork(1, 5, seed=3)
    all_orders = list(local_work.follow(ledger))
    assert len({tuple(w.samples[0].tolist()) for w in all_orders}) == 4
    for orders in all_orders:
        np.testing.assert_array_equal(
            orders.samples, local_work.orders(ledger.round(orders.number)).samples
        )
    later = list(local_work.follow(ledger, first=3))
    assert [w.number for w in later] == [3, 4]
    np.testing.assert_array_equal(later[0].samples, all_orders[2].samples)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.data())
def test_a_part_of_the_work_is_the_work_of_some_clients(counts, data):
    orders = LocalWork(2, 3).orders(ledger_of(counts).round(1))
    first = data.draw(st.integers(0, len(counts) - 1))
    last = data.draw(st.integers(first + 1, len(counts)))
    part = orders.part(first, last)
    assert part.clients.tolist() == orders.clients[first:last].tolist()
    for k in range(last - first):
        for mine, theirs in zip(batches_of(part, k), batches_of(orders, first + k), strict=True):
            np.testing.assert_array_equal(mine, theirs)
