"""Rounds one after the other are the rounds looked up one by one, at a cost that does not grow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_federations import settings_of_a_ledger

import headwater as hw
from headwater.ledger.orders import LocalWork
from headwater.ledger.walk import Walk


@settings(max_examples=150, deadline=None)
@given(settings_of_a_ledger(most_clients=5, most_samples=20, most_rounds=12), st.data())
def test_walking_equals_looking_up(setting, data):
    """Bit for bit, from any round on, with weights some of which are zero."""
    holdings = setting.holdings()
    seed = data.draw(st.integers(0, 99))
    weights = np.random.default_rng(seed).choice([0.0, 0.3, 1.0, 7.0], len(holdings.enter))
    assume(all(weights[holdings.held(t)].any() for t in range(1, setting.rounds + 1)))
    ledger = hw.Ledger.weigh(holdings, hw.Given(weights))
    first = data.draw(st.integers(1, setting.rounds + 1))
    walked = list(ledger.rounds(first))
    assert [round.number for round in walked] == list(range(first, setting.rounds + 1))
    for round in walked:
        looked_up = ledger.round(round.number)
        for name in ("clients", "shares", "offsets", "samples", "weights"):
            np.testing.assert_array_equal(getattr(round, name), getattr(looked_up, name))


def test_rounds_in_which_nothing_changes_share_their_arrays():
    rules = [hw.Once(), hw.Trace([1, 0, 0, 1])], [hw.Keep(), hw.Fifo(1)]
    first, second, third, fourth = hw.Ledger.of([3, 2], *rules, hw.Uniform(), rounds=4).rounds()
    assert first.samples is second.samples is third.samples
    assert first.shares is third.shares
    assert fourth.samples is not third.samples


class Counting(np.ndarray):
    """An array that adds up how many of its entries were read."""

    read = 0

    def __getitem__(self, where):
        found = super().__getitem__(where)
        Counting.read += np.size(found)
        return np.asarray(found)


@pytest.mark.parametrize("rounds", [100, 1000])
def test_a_round_reads_what_changes_in_it(rounds):
    """After the start, a round takes 4 entering and 4 leaving samples per client from the lists."""
    clients, rate = 5, 4
    holdings = hw.unroll([rate * rounds] * clients, hw.Constant(rate), hw.Fifo(16), rounds)
    walk = Walk(holdings, np.ones(len(holdings.enter)))
    walk._entering._samples = walk._entering._samples.view(Counting)
    walk._leaving._samples = walk._leaving._samples.view(Counting)
    held = walk.held()
    next(held)
    Counting.read = 0
    sizes = [len(now) for now in held]
    assert max(sizes) == 16 * clients
    assert Counting.read <= 2 * rate * clients * rounds


def test_following_a_walk_gives_the_same_orders_as_looking_up():
    rules = [hw.Once(), hw.Constant(4)], [hw.Keep(), hw.Fifo(16)]
    ledger = hw.Ledger.of([30, 160], *rules, hw.Uniform(), rounds=40)
    work = LocalWork(2, 8, seed=3)
    for orders in work.follow(ledger, first=7):
        expected = work.orders(ledger.round(orders.number))
        np.testing.assert_array_equal(orders.samples, expected.samples)
        np.testing.assert_array_equal(orders.coefficients, expected.coefficients)
