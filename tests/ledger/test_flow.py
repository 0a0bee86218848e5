"""Streams unrolled as they come are those written down beforehand, in memory that stays small."""

from __future__ import annotations

import tracemalloc
from itertools import islice

import numpy as np
import pytest

import headwater as hw
from headwater.ledger import flow as flow_module
from headwater.ledger.flow import Flow

FEDERATIONS = {
    "one fifo": ([40], hw.Constant(3), hw.Fifo(7)),
    "a reservoir": ([200, 30], hw.Constant(2), hw.Reservoir(5)),
    "historical and fresh": ([9, 60], [hw.Once(), hw.Constant(4)], [hw.Keep(), hw.Fifo(6)]),
    "every second round": ([12, 3], hw.Constant(0.5), hw.Fifo(2)),
    "a trace": ([9, 9, 8], hw.Trace([1, 0, 0, 4, 2, 0, 1]), [hw.Fifo(4), hw.Keep(), hw.Fifo(5)]),
    "all kinds mixed": (
        [5, 30, 7, 30, 30],
        [hw.Once(), hw.Constant(1), hw.Once(), hw.Constant(1), hw.Constant(3)],
        [hw.Keep(), hw.Fifo(4), hw.Keep(), hw.Fifo(4), hw.Reservoir(3)],
    ),
}


@pytest.mark.parametrize("at_once", [1, 7, 1 << 16])
@pytest.mark.parametrize("name", FEDERATIONS)
def test_the_rounds_are_those_of_the_ledger(name, at_once, monkeypatch):
    """Bit for bit, from any round on, however many samples are unrolled at once."""
    monkeypatch.setattr(flow_module, "_AT_ONCE", at_once)
    ledger = hw.Ledger.of(*FEDERATIONS[name], hw.ByMemory(), rounds=15, seed=4)
    flow = Flow(*FEDERATIONS[name], last=15, seed=4)
    np.testing.assert_allclose(flow.round_shares, ledger.round_shares, rtol=1e-15)
    for first in (1, 6):
        for found, wanted in zip(flow.rounds(first), ledger.rounds(first), strict=True):
            assert found.number == wanted.number
            for part in ("clients", "shares", "offsets", "samples", "weights"):
                np.testing.assert_array_equal(getattr(found, part), getattr(wanted, part))


STRATEGIES = [
    hw.Uniform(),
    hw.Share(0.3),
    hw.Historical(),
    hw.Fresh(),
    hw.Importance([0.1, 0.4, 0.0, 0.3, 0.2]),
]


@pytest.mark.parametrize("at_once", [1, 7, 1 << 16])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_fixed_weights_are_those_of_the_ledger(strategy, at_once, monkeypatch):
    """Also where samples are put aside in the round in which they came, or are never kept."""
    monkeypatch.setattr(flow_module, "_AT_ONCE", at_once)
    mixed = FEDERATIONS["all kinds mixed"]
    for rounds in (2, 15, 40):
        ledger = hw.Ledger.of(*mixed, strategy, rounds=rounds, seed=4)
        flow = Flow(*mixed, last=rounds, seed=4, strategy=strategy)
        np.testing.assert_allclose(flow.round_shares, ledger.round_shares, rtol=1e-12)
        for found, wanted in zip(flow.rounds(), ledger.rounds(), strict=True):
            for part in ("clients", "shares", "offsets", "samples", "weights"):
                np.testing.assert_array_equal(getattr(found, part), getattr(wanted, part))


@pytest.mark.parametrize("name", FEDERATIONS)
def test_uniform_weights_are_those_of_the_ledger_everywhere(name):
    ledger = hw.Ledger.of(*FEDERATIONS[name], hw.Uniform(), rounds=15, seed=4)
    flow = Flow(*FEDERATIONS[name], last=15, seed=4, strategy=hw.Uniform())
    np.testing.assert_allclose(flow.round_shares, ledger.round_shares, rtol=1e-12)
    for found, wanted in zip(flow.rounds(6), ledger.rounds(6), strict=True):
        np.testing.assert_array_equal(found.samples, wanted.samples)
        np.testing.assert_array_equal(found.weights, wanted.weights)
        np.testing.assert_array_equal(found.shares, wanted.shares)


def test_rounds_in_which_nothing_that_counts_changes_share_their_arrays():
    flow = Flow(*FEDERATIONS["historical and fresh"], last=9, strategy=hw.Historical())
    samples = [round.samples for round in flow.rounds()]
    assert all(one is samples[0] for one in samples)


@pytest.mark.parametrize("strategy", [hw.Fading(3), hw.Given([1.0])], ids=repr)
def test_strategies_that_look_at_more_are_refused(strategy):
    with pytest.raises(hw.InputError, match=r"not written down.*Ledger"):
        Flow([4], hw.Constant(1), hw.Fifo(2), last=3, strategy=strategy)


def test_looking_ahead_takes_a_number_for_each_place_and_stretch():
    """Not one for each sample: 400,000 samples take less than a megabyte."""
    flow = Flow([10**5] * 4, hw.Constant(4), hw.Fifo(16), last=25_000, strategy=hw.Uniform())
    tracemalloc.start()
    flow.round_shares  # noqa: B018 (it is worked out when it is asked for)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 2**20


def test_memory_does_not_grow_with_the_streams():
    peaks = []
    for length in (10**6, 10**11):
        flow = Flow([length] * 3, hw.Constant(4), hw.Fifo(16), last=10**6)
        tracemalloc.start()
        rounds = list(islice(flow.rounds(), 40))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(rounds[-1].samples) == 48
    assert peaks[1] < 1.1 * peaks[0] + 1e5


@pytest.mark.parametrize("process", [hw.Poisson(2), hw.Window(1, 5, hw.Constant(1))])
def test_what_cannot_be_unrolled_as_it_comes_is_refused(process):
    with pytest.raises(hw.InputError, match=r"as it comes.*Ledger"):
        next(Flow([10], process, hw.Fifo(4), last=9).rounds())


def test_a_process_that_brings_more_than_it_says_is_refused():
    class Liar(hw.Constant):
        def largest_batch(self, count):
            return min(1, count)

    with pytest.raises(hw.InputError, match="largest_batch"):
        list(Flow([10], Liar(2), hw.Fifo(4), last=5).rounds())


def test_a_round_in_which_nobody_holds_anything_is_refused():
    with pytest.raises(hw.InputError, match="round 1: nobody"):
        list(Flow([4], hw.Trace([0, 2]), hw.Fifo(4), last=3).rounds())
