"""Recorded arrivals: all clients in one array, bursts that do not fit, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import headwater as hw
from headwater.errors import InputError
from headwater.ledger.recorded import Recorded


def test_they_are_the_same_as_a_trace_for_each_client() -> None:
    arrival = np.array([1, 1, 3, 2, 5, 5])
    recorded = Recorded(arrival, np.array([0, 3, 6]))
    one = hw.unroll([3, 3], recorded, hw.Fifo(2), rounds=6)
    each = hw.unroll([3, 3], [hw.Trace([2, 0, 1]), hw.Trace([0, 1, 0, 0, 2])], hw.Fifo(2), 6)
    np.testing.assert_array_equal(one.enter, each.enter)
    np.testing.assert_array_equal(one.leave, each.leave)


def test_some_clients_may_follow_another_process() -> None:
    recorded = Recorded(np.array([1, 1, 4, 7]), np.array([0, 2, 4]))
    holdings = hw.unroll([2, 2], [hw.Once(), recorded], [hw.Keep(), hw.Fifo(1)], rounds=8)
    assert holdings.enter.tolist() == [1, 1, 4, 7]
    assert holdings.historical.tolist() == [True, False]


def test_of_a_burst_the_memory_keeps_what_it_can() -> None:
    recorded = Recorded(np.array([2, 2, 2, 3]), np.array([0, 4]))
    holdings = hw.unroll([4], recorded, hw.Fifo(2), rounds=4)
    assert holdings.rounds_held.tolist() == [0, 1, 3 - 0, 2]
    assert holdings.collected.tolist() == [3]


@pytest.mark.parametrize(
    ("arrival", "offsets", "words"),
    [
        ([0, 1], [0, 2], "counted from 1"),
        ([1.5, 2.0], [0, 2], "whole numbers"),
        ([1, 2], [0, 1], "from 0 to the number of samples, 2"),
        ([1, 2, 3, 2], [0, 2, 4], "client 1's sample 1 comes before"),
    ],
)
def test_what_cannot_be_is_refused(arrival: list[int], offsets: list[int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Recorded(np.array(arrival), np.array(offsets))
