"""Partial participation: the right number of clients, shares that sum to one, p_m(t) in
expectation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.ledger.drawing import inclusion
from headwater.ledger.orders import LocalWork, select
from headwater.ledger.rounds import Round


def round_with(shares, number=1):
    """A round in which client m has two samples and the given share."""
    shares = np.asarray(shares, float)
    count = len(shares)
    return Round(
        number,
        np.arange(count) * 3,
        shares / shares.sum(),
        2 * np.arange(count + 1),
        np.arange(2 * count),
        np.tile([0.25, 0.75], count),
    )


POSITIVE = st.lists(st.floats(1e-3, 1.0), min_size=2, max_size=12)


@settings(max_examples=200, deadline=None)
@given(POSITIVE, st.data())
def test_chances_are_proportional_to_shares_up_to_one_and_sum_to_the_number(values, data):
    shares = np.array(values) / sum(values)
    number = data.draw(st.integers(1, len(shares) - 1))
    chance = inclusion(shares, number)
    assert chance.sum() == pytest.approx(number, rel=1e-9)
    assert (chance > 0).all()
    assert (chance <= 1).all()
    free = chance < 1
    if free.any():
        ratio = chance[free] / shares[free]
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)
        assert (
            ratio[0] * shares[~free] >= 1 - 1e-9
        ).all()  # those that are sure would have had more


@settings(max_examples=100, deadline=None)
@given(POSITIVE, st.data(), st.integers(0, 1000))
def test_as_many_come_as_asked_and_their_shares_sum_to_one(values, data, seed):
    round = round_with(values)
    number = data.draw(st.integers(1, len(values)))
    chosen = select(round, number, seed)
    assert len(chosen.clients) == number
    assert chosen.shares.sum() == pytest.approx(1, rel=1e-12)
    assert set(chosen.clients) <= set(round.clients)
    for k, client in enumerate(chosen.clients):
        mine = slice(chosen.offsets[k], chosen.offsets[k + 1])
        place = client // 3
        assert chosen.samples[mine].tolist() == [2 * place, 2 * place + 1]
        assert chosen.weights[mine].tolist() == [0.25, 0.75]


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "values", [[0.7, 0.1, 0.1, 0.05, 0.05], [1, 1, 1, 1, 1], [0.4, 0.3, 0.15, 0.1, 0.05]]
)
def test_everyone_counts_their_share_in_expectation(values, number, monkeypatch):
    """Whatever the order of the clients, over a fine grid of the comb's places the mean share is
    p_m(t)."""
    wanted, grid = np.array(values) / sum(values), 500
    total = np.zeros(len(values))
    for step in range(grid):

        def fake(seed, purpose, round, clients=None, place=(step + 0.5) / grid):
            return place if clients is None else np.array([0.3, 0.1, 0.4, 0.0, 0.2])

        monkeypatch.setattr("headwater.ledger.orders.uniform", fake)
        chosen = select(round_with(values), number, seed=0)
        total[chosen.clients // 3] += chosen.shares
    np.testing.assert_allclose(total / grid, wanted, atol=1.01 / grid)


def test_everyone_counts_their_share_in_expectation_over_real_draws():
    values, rounds = np.array([0.5, 0.25, 0.15, 0.1]), 2500
    total = np.zeros(4)
    for t in range(1, rounds + 1):
        chosen = select(round_with(values, t), 2, seed=3)
        total[chosen.clients // 3] += chosen.shares
    np.testing.assert_allclose(total / rounds, values, atol=4.5 * 0.5 / np.sqrt(rounds))


@pytest.mark.parametrize(
    ("participation", "clients"),
    [(0.5, 5), (0.41, 5), (0.1, 1), (0.01, 1), (0.99, 10), (1, 1), (3, 3), (50, 10)],
)
def test_a_number_or_a_fraction_rounded_up(participation, clients):
    orders = LocalWork(participation=participation).orders(round_with(np.ones(10)))
    assert len(orders.clients) == clients


@pytest.mark.parametrize(
    ("participation", "clients"),
    [(0.07, 7), (0.55, 55), (0.29, 29), (np.float32(0.2), 20), (np.float64(0.07), 7), (0.071, 8)],
)
def test_a_fraction_is_the_decimal_number_that_was_written(participation, clients):
    orders = LocalWork(participation=participation).orders(round_with(np.ones(100)))
    assert len(orders.clients) == clients


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "0.5", np.nan, np.inf])
def test_other_participation_is_refused(bad):
    with pytest.raises(hw.InputError, match="participation"):
        LocalWork(participation=bad)


def test_everyone_is_everyone():
    round = round_with([1, 2, 3])
    assert select(round, 3, seed=0) is round
    assert LocalWork(participation=None).orders(round).shares.tolist() == round.shares.tolist()


def test_streams_flow_on_at_clients_that_are_not_chosen():
    """Who is chosen does not change who holds what: the ledger is the same, only the work is
    less."""
    kinds = [hw.Once(), hw.Constant(2), hw.Constant(2)], [hw.Keep(), hw.Fifo(2), hw.Fifo(2)]
    ledger = hw.Ledger.of([4, 12, 12], *kinds, hw.Uniform(), rounds=6)
    for round, orders in zip(
        ledger.rounds(), LocalWork(participation=2, seed=1).follow(ledger), strict=True
    ):
        held = {
            c: round.samples[round.offsets[k] : round.offsets[k + 1]].tolist()
            for k, c in enumerate(round.clients)
        }
        for k, client in enumerate(orders.clients):
            assert (
                orders.samples[0, orders.offsets[k] : orders.offsets[k + 1]].tolist()
                == held[client]
            )


def test_a_choice_depends_on_seed_and_round_only():
    one, two = (select(round_with(np.ones(30), 4), 6, seed=2) for _ in range(2))
    assert one.clients.tolist() == two.clients.tolist()
    others = {
        tuple(select(round_with(np.ones(30), t), 6, seed=s).clients)
        for t in range(5)
        for s in range(5)
    }
    assert len(others) > 3


def test_the_same_clients_do_not_always_come_together():
    """With equal shares all pairs of clients meet: a comb over a fixed order would know only a few
    cohorts."""
    local_work = LocalWork(participation=2, seed=0)
    equal = round_with(np.ones(6))
    pairs = {tuple(local_work.orders(replace(equal, number=t)).clients) for t in range(1, 301)}
    assert len(pairs) == 15


def test_one_as_a_fraction_is_everybody():
    assert len(LocalWork(participation=1.0).orders(round_with(np.ones(7))).clients) == 7
