"""Who holds which sample when: the unrolled intervals against memories that are run sample by
sample."""

from __future__ import annotations

from dataclasses import dataclass, replace

import memory_by_hand as by_hand
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_federations import settings_of_a_ledger

import headwater as hw
from headwater.ledger.conformance import check_arrivals


def clients_samples(holdings, m, round):
    """I_m(t) as the holdings say."""
    first, last = holdings.offsets[m], holdings.offsets[m + 1]
    return set(np.flatnonzero(holdings.held(round)[first:last]).tolist())


@settings(max_examples=200, deadline=None)
@given(settings_of_a_ledger())
def test_the_intervals_are_those_of_memories_run_by_hand(setting):
    held = by_hand.memories(
        setting.counts, setting.arrivals, setting.rules, setting.rounds, setting.seed
    )
    holdings = setting.holdings()
    for m, count in enumerate(setting.counts):
        for t in held:
            assert clients_samples(holdings, m, t) == held[t][m]
        for i in range(count):
            when = by_hand.rounds_held(held, m, i)
            number = holdings.offsets[m] + i
            assert holdings.rounds_held[number] == len(when)
            if when:
                assert (holdings.enter[number], holdings.leave[number]) == (when[0], when[-1] + 1)


@settings(max_examples=60, deadline=None)
@given(settings_of_a_ledger())
def test_counts_and_kinds_of_clients(setting):
    held = by_hand.memories(
        setting.counts, setting.arrivals, setting.rules, setting.rounds, setting.seed
    )
    holdings = setting.holdings()
    everyone = range(len(setting.counts))
    assert holdings.clients == len(setting.counts)
    assert holdings.client.tolist() == [m for m in everyone for _ in range(setting.counts[m])]
    assert holdings.collected.tolist() == [len(by_hand.collected(held, m)) for m in everyone]
    assert holdings.historical.tolist() == [by_hand.historical(held, m) for m in everyone]
    changed = [held[t] != held[t - 1] for t in range(2, setting.rounds + 1)]
    assert all(holdings.changes[t + 2] for t, moved in enumerate(changed) if moved)


@settings(max_examples=60, deadline=None)
@given(settings_of_a_ledger())
def test_no_memory_is_ever_fuller_than_its_capacity(setting):
    holdings = setting.holdings()
    for t in range(1, setting.rounds + 1):
        for kept, rule in zip(holdings.per_client(holdings.held(t)), setting.rules, strict=True):
            assert rule.capacity is None or kept <= rule.capacity


@settings(max_examples=60, deadline=None)
@given(settings_of_a_ledger(), settings_of_a_ledger(), st.data())
def test_a_client_does_not_depend_on_the_others(setting, other, data):
    """The others may leave, or be anybody else: whoever keeps their number keeps their draws."""
    who = data.draw(st.integers(0, len(setting.counts) - 1))
    alike = [
        n if m == who else other.counts[m % len(other.counts)] for m, n in enumerate(setting.counts)
    ]
    processes = [p if m == who else hw.Poisson(1 + m) for m, p in enumerate(setting.arrivals)]
    rules = [r if m == who else hw.Reservoir(2 + m) for m, r in enumerate(setting.rules)]
    company = replace(setting, counts=alike, arrivals=processes, rules=rules)
    alone = replace(
        setting, counts=alike[: who + 1], arrivals=processes[: who + 1], rules=rules[: who + 1]
    )
    before, after, short = setting.holdings(), company.holdings(), alone.holdings()
    for t in range(1, setting.rounds + 1):
        assert (
            clients_samples(before, who, t)
            == clients_samples(after, who, t)
            == clients_samples(short, who, t)
        )


@settings(max_examples=40, deadline=None)
@given(settings_of_a_ledger(), st.integers(1, 10))
def test_a_longer_run_begins_like_a_shorter_one(setting, more):
    short, long = setting.holdings(), replace(setting, rounds=setting.rounds + more).holdings()
    for t in range(1, setting.rounds + 1):
        np.testing.assert_array_equal(short.held(t), long.held(t))


@settings(max_examples=20, deadline=None)
@given(settings_of_a_ledger())
def test_the_same_seed_gives_the_same_holdings(setting):
    one, two = setting.holdings(), setting.holdings()
    np.testing.assert_array_equal(one.enter, two.enter)
    np.testing.assert_array_equal(one.leave, two.leave)


def test_another_seed_gives_other_holdings():
    one, two = (hw.unroll([50], hw.Poisson(1), hw.Reservoir(5), rounds=40, seed=s) for s in (0, 1))
    assert (one.enter != two.enter).any()
    assert (one.leave != two.leave).any()


def test_one_rule_for_all_is_the_same_as_one_a_client():
    shared = hw.unroll([7, 9, 4], hw.Poisson(1.5), hw.Reservoir(3), rounds=6, seed=5)
    each = hw.unroll([7, 9, 4], [hw.Poisson(1.5)] * 3, [hw.Reservoir(3)] * 3, rounds=6, seed=5)
    np.testing.assert_array_equal(shared.enter, each.enter)
    np.testing.assert_array_equal(shared.leave, each.leave)


def test_a_client_in_a_window_takes_its_memory_along():
    holdings = hw.unroll([3], hw.Window(2, 3), hw.Keep(), rounds=5)
    assert [int(holdings.held(t).sum()) for t in range(1, 6)] == [0, 3, 3, 0, 0]


def test_a_window_in_a_window_is_what_both_allow():
    holdings = hw.unroll([3, 3], [hw.Window(2, 6, hw.Window(2, 3)), hw.Window(3, 4)], hw.Keep(), 6)
    assert holdings.enter.tolist() == [3] * 6
    assert holdings.leave.tolist() == [5] * 6


@dataclass(frozen=True)
class Commuter:
    """A process of one's own that leaves: client m stays for some rounds from round m + 1."""

    stay: int

    def rounds(self, samples):
        return samples.client + 1

    def largest_batch(self, count):
        return count

    def departures(self, samples):
        return samples.client + 1 + self.stay


def test_a_process_of_ones_own_can_leave_too():
    check_arrivals(Commuter(2))
    holdings = hw.unroll([2, 2, 2], Commuter(2), hw.Fifo(2), rounds=3)
    windows = [hw.Window(m, m + 1) for m in (1, 2, 3)]
    expected = hw.unroll([2, 2, 2], windows, hw.Fifo(2), rounds=3)
    np.testing.assert_array_equal(holdings.enter, expected.enter)
    np.testing.assert_array_equal(holdings.leave, expected.leave)


@pytest.mark.parametrize(
    "values", [np.array([1, 0, 1, 1, 1], bool), np.array([1, 2, 3, 4, 5], np.int32)]
)
def test_sums_per_client_are_exact_for_whole_numbers(values):
    holdings = hw.unroll([2, 3], hw.Once(), hw.Keep(), rounds=1)
    assert holdings.per_client(values).tolist() == [int(values[:2].sum()), int(values[2:].sum())]


def test_samples_that_would_come_after_their_client_has_left_never_enter():
    holdings = hw.unroll([40], hw.Window(1, 5, hw.Constant(2)), hw.Fifo(4), rounds=10)
    entered = np.bincount(holdings.enter, minlength=12)
    assert entered.tolist() == [0, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 30]
    assert (holdings.leave >= holdings.enter).all()
