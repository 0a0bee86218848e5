from __future__ import annotations

from contextlib import ExitStack

import pytest
from loopback_grid import LoopbackGrid
from toy_node import Served, toy

from headwater.flower.deployment.superlink import free_port


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    """Three toy nodes behind sockets, and a grid that reaches them."""
    monkeypatch.setattr("headwater.flower.exchange._POLL", 0.001)
    with ExitStack() as stack:
        yield make_fleet(stack, tmp_path, live=False)


@pytest.fixture
def live_fleet(tmp_path, monkeypatch):
    """The same without declared arrivals."""
    monkeypatch.setattr("headwater.flower.exchange._POLL", 0.001)
    with ExitStack() as stack:
        yield make_fleet(stack, tmp_path, live=True)


@pytest.fixture
def unused_port():
    return free_port()


def make_fleet(stack, folder, live):
    nodes = [toy(number, live) for number in range(3)]
    for node in nodes:
        stack.enter_context(Served(node, folder / f"{node.client}.sock"))
    # Flower's numbers are in no order that means anything
    sockets = {
        100 - m: (node.client, folder / f"{node.client}.sock") for m, node in enumerate(nodes)
    }
    grid = LoopbackGrid(sockets)
    grid.toys = nodes
    return grid
