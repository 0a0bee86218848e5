"""Keyed draws: uniform, independent of each other in every coordinate, and never the same twice."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from headwater.randomness import Purpose, below, key, uniform

MANY = 100_000
COUNTER = np.arange(MANY)


def two_dimensional(a, b, cells=16):
    """p-value of a chi-square test: pairs fall evenly into the cells of a grid."""
    counts = np.histogram2d(a, b, bins=cells, range=[[0, 1], [0, 1]])[0]
    return stats.chisquare(counts.ravel()).pvalue


@pytest.mark.parametrize("purpose", list(Purpose))
@pytest.mark.parametrize("seed", [0, 1, 2**63])
def test_draws_are_uniform(seed, purpose):
    draws = uniform(seed, purpose, 3, COUNTER)
    assert draws.min() >= 0
    assert draws.max() < 1
    assert stats.kstest(draws, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("bits", [[0], [10], [11, 12], [31, 40, 52]])
def test_every_bit_is_a_fair_coin_and_bits_do_not_know_of_each_other(bits):
    words = (uniform(5, Purpose.BATCH, COUNTER) * 2.0**53).astype(np.uint64)
    parity = sum((words >> np.uint64(b)) & np.uint64(1) for b in bits) % 2
    assert abs(parity.mean() - 0.5) < 4.5 * 0.5 / math.sqrt(MANY)


def neighbours():
    """Pairs of draws whose keys differ in one place only."""
    base = uniform(9, Purpose.BATCH, 4, COUNTER, 2)
    yield "seed", base, uniform(10, Purpose.BATCH, 4, COUNTER, 2)
    yield "round", base, uniform(9, Purpose.BATCH, 5, COUNTER, 2)
    yield "client", base, uniform(9, Purpose.BATCH, 4, COUNTER + 1, 2)
    yield "step", base, uniform(9, Purpose.BATCH, 4, COUNTER, 3)
    yield "order", base, uniform(9, Purpose.BATCH, 2, COUNTER, 4)
    for purpose in set(Purpose) - {Purpose.BATCH}:
        yield purpose.name, base, uniform(9, purpose, 4, COUNTER, 2)


@pytest.mark.parametrize("pair", list(neighbours()), ids=lambda pair: pair[0])
def test_draws_for_other_keys_are_independent(pair):
    _, one, two = pair
    assert not (one == two).any()
    assert abs(np.corrcoef(one, two)[0, 1]) < 4.5 / math.sqrt(MANY)
    assert two_dimensional(one, two) > 1e-4


def test_small_seeds_purposes_and_coordinates_do_not_collide():
    """Every (seed, purpose, round, client) of a small world has 64 bits of its own."""
    client = np.arange(100)
    words = [
        key(seed, purpose, round, client)
        for seed in range(10)
        for purpose in Purpose
        for round in range(30)
    ]
    words = np.concatenate(words)
    assert len(np.unique(words)) == len(words) == 10 * len(Purpose) * 30 * 100


def test_a_key_of_two_coordinates_is_not_a_key_of_one():
    short = key(0, Purpose.MEMORY, COUNTER)
    long = key(0, Purpose.MEMORY, COUNTER, 0)
    assert not np.isin(long, short).any()


def test_one_at_a_time_is_the_same_as_all_at_once():
    grid = uniform(3, Purpose.ARRIVALS, np.arange(4)[:, None], np.arange(5))
    assert grid.shape == (4, 5)
    assert all(
        grid[i, j] == float(uniform(3, Purpose.ARRIVALS, i, j)) for i in range(4) for j in range(5)
    )


def test_the_kind_of_integer_does_not_matter():
    kinds = (np.int32, np.int64, np.uint8, np.uint64)
    assert len({float(uniform(1, Purpose.DATA, np.array(7, kind))) for kind in kinds}) == 1


def test_negative_and_huge_seeds_are_seeds():
    draws = {float(uniform(seed, Purpose.DATA, 0)) for seed in (-1, 0, 1, 2**63, 2**64 - 2)}
    assert len(draws) == 5


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 2**31 - 1])
def test_whole_numbers_below_a_bound(bound):
    last = 1 - 2.0**-53  # the largest draw there is
    assert below(bound, np.array([0.0, last])).tolist() == [0, bound - 1]


def test_whole_numbers_are_equally_likely():
    numbers = below(7, uniform(2, Purpose.MEMORY, COUNTER))
    assert stats.chisquare(np.bincount(numbers, minlength=7)).pvalue > 1e-4
