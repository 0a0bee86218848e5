"""Arrival processes of the tasks, on federations small enough to count."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InputError
from headwater.experiments.tasks.streams import steady, visiting
from headwater.learning.federation import Part


def part(counts: list[int]) -> Part:
    total = sum(counts)
    return Part(torch.zeros(total, 1), torch.zeros(total), np.concatenate([[0], np.cumsum(counts)]))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), st.integers(1, 30))
def test_a_steady_stream_lasts_exactly_as_long_as_the_run(counts: list[int], rounds: int) -> None:
    train = part([3, *counts])
    holdings = steady(train, 1, rounds, train).holdings(rounds)
    assert holdings.collected.tolist() == [3, *counts]
    for m, count in enumerate(counts, start=1):
        enter = holdings.enter[holdings.client == m]
        by_round = np.searchsorted(enter, np.arange(1, rounds + 1), side="right")
        expected = np.ceil(
            count * np.arange(1, rounds + 1) / rounds - 1e-6
        )  # N_m t / T, rounded up
        np.testing.assert_array_equal(by_round, np.minimum(expected, count))


@given(st.integers(1, 40), st.integers(1, 3), st.data())
def test_visits_fill_every_round_and_nobody_overstays(
    fresh: int, stay: int, data: st.DataObject
) -> None:
    rounds = data.draw(st.integers(1, stay * fresh))
    train = part([1] * (fresh + 1))
    historical = np.arange(fresh + 1) == 0
    holdings = visiting(train, historical, rounds, stay, 7, train).holdings(rounds)
    held = np.array([holdings.held(t) for t in range(1, rounds + 1)])
    assert held[:, 0].all()
    assert held[:, 1:].any(axis=1).all()
    stays = held[:, 1:].sum(axis=0)
    assert stays.min() >= 1
    assert stays.max() <= stay


def test_rounds_without_a_fresh_client_are_refused() -> None:
    train = part([1, 1, 1])
    with pytest.raises(InputError, match="2 fresh clients that are there for at most 2 rounds"):
        visiting(train, np.array([True, False, False]), 5, 2, 0, train)
