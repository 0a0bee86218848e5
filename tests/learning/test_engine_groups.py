"""Clients that step together: all of them, none twice, no more than have room, evenly dealt."""

from __future__ import annotations

import numpy as np
import pytest

import headwater as hw
from headwater.learning.engines.groups import groups
from headwater.ledger.orders import LocalWork

ROOM = 384


def found(counts: list[int]) -> list[tuple[int, int]]:
    """Clients and padded batch of each group; every sample of the round is in one of them."""
    ledger = hw.Ledger.of(counts, hw.Once(), hw.Keep(), hw.Uniform(), rounds=1)
    orders = LocalWork(2).orders(ledger.round(1))
    parts = list(groups(orders, lambda sizes: sizes, ROOM))
    columns = np.concatenate([part.columns[part.real] for part in parts])
    assert sorted(columns.tolist()) == list(range(sum(counts)))
    return [part.columns.shape for part in parts]


@pytest.mark.parametrize(
    ("clients", "sizes"),
    [(50, [10] * 5), (48, [12] * 4), (12, [12]), (13, [7, 6]), (26, [9, 9, 8]), (1, [1])],
)
def test_equal_clients_are_dealt_out_evenly(clients: int, sizes: list[int]) -> None:
    assert found([32] * clients) == [(size, 32) for size in sizes]


@pytest.mark.parametrize("seed", range(4))
def test_no_group_has_more_than_there_is_room_for(seed: int) -> None:
    counts = np.random.default_rng(seed).integers(1, 80, 200).tolist()
    shapes = found(counts)
    assert max(clients * batch for clients, batch in shapes) <= ROOM
    # Evenness costs no more than a group or two beside filling one after the other.
    assert len(shapes) <= 1.25 * sum(counts) / ROOM + 2


def test_a_client_that_is_larger_than_the_room_goes_alone() -> None:
    assert found([1000, 900]) == [(1, 900), (1, 1000)]
