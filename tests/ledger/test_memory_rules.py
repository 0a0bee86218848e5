"""Memory rules: FIFO keeps the newest, a reservoir keeps every sample seen so far with the same
probability."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

import headwater as hw


def final_memories(rule, seen, clients, seed):
    """The samples that each of many clients holds after seeing ``seen`` of them, one a round."""
    holdings = hw.unroll([seen] * clients, hw.Constant(1), rule, rounds=seen, seed=seed)
    held = holdings.held(seen).reshape(clients, seen)
    return held


@pytest.mark.parametrize(("capacity", "seen"), [(1, 6), (2, 5), (3, 3), (4, 20)])
def test_a_reservoir_keeps_every_sample_with_equal_probability(capacity, seen):
    clients = 20_000
    held = final_memories(hw.Reservoir(capacity), seen, clients, seed=1)
    assert (held.sum(axis=1) == capacity).all()
    expected = np.full(seen, clients * capacity / seen)
    # Counts of draws without replacement vary less than a chi-square assumes, by this factor
    scale = (seen - 1) / (seen - capacity) if seen > capacity else 1.0
    statistic = ((held.sum(axis=0) - expected) ** 2 / expected).sum() * scale
    assert stats.chi2.sf(statistic, seen - 1) > 1e-3


def test_a_reservoir_keeps_every_pair_with_equal_probability():
    """Not only each sample: each subset of two out of five."""
    held = final_memories(hw.Reservoir(2), 5, 20_000, seed=2)
    pairs = list(combinations(range(5), 2))
    counts = [int((held[:, a] & held[:, b]).sum()) for a, b in pairs]
    assert sum(counts) == 20_000
    assert stats.chisquare(counts).pvalue > 1e-3


def test_a_reservoir_is_fair_after_every_round_and_not_only_at_the_end():
    holdings = hw.unroll([8] * 20_000, hw.Constant(1), hw.Reservoir(2), rounds=8, seed=3)
    for seen in range(3, 9):
        held = holdings.held(seen).reshape(-1, 8)
        assert not held[:, seen:].any()
        rate = held[:, :seen].mean(axis=0)
        np.testing.assert_allclose(rate, 2 / seen, atol=4.5 * np.sqrt(0.25 / 20_000))


def test_first_in_first_out():
    held = final_memories(hw.Fifo(3), 8, 2, seed=0)
    assert held.tolist() == [[False] * 5 + [True] * 3] * 2


def test_what_overflows_within_a_round_is_never_in_memory():
    """A Poisson batch may be larger than the memory: the newest stay, the others are not held for
    any round."""
    holdings = hw.unroll([60], hw.Poisson(10), hw.Fifo(2), rounds=4, seed=0)
    assert all(holdings.held(t).sum() == 2 for t in range(1, 5))
    assert (holdings.rounds_held[(holdings.enter == 1)] > 0).sum() == 2
    assert (holdings.rounds_held >= 0).all()


def test_keep_keeps():
    holdings = hw.unroll([6], hw.Constant(2), hw.Keep(), rounds=3)
    assert holdings.leave.tolist() == [4] * 6
