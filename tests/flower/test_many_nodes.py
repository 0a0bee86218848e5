"""A server's memory is that of a model, however many nodes there are."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from loopback_grid import LoopbackGrid

import headwater as hw
from headwater.flower import StreamFedAvg, messages
from headwater.flower.messages import flatten

SIZE = 500_000


class ManyNodes(LoopbackGrid):
    """Nodes without processes: each moves every parameter by one."""

    def __init__(self, count):
        super().__init__(dict.fromkeys(range(1, count + 1), ("", "")))

    def push_messages(self, messages):
        numbers = super().push_messages(messages)
        self.sent = [None] * len(self.sent)  # what was sent is not the server's memory
        return numbers

    def pull_messages(self, message_ids):
        found = super().pull_messages(message_ids)
        self.back.clear()
        return found

    def answer(self, message):
        node, kind = message.metadata.dst_node_id, message.metadata.message_type
        if kind == messages.DESCRIBE:
            about = {"client-id": f"node{node}", "arrived": 9, "held": 9, "historical": True}
            return Message(messages.request(about), reply_to=message)
        local = flatten(messages.arrays_of(message.content)) + 1
        content = {"arrays": ArrayRecord([local]), "metrics": MetricRecord({"held": 9})}
        return Message(RecordDict(content), reply_to=message)


def peak(clients):
    """The most memory of two rounds, in bytes; the answer is checked, too."""
    start = np.zeros(SIZE, np.float32)
    strategy = StreamFedAvg(hw.Uniform(), min_clients=clients)
    tracemalloc.start()
    result = strategy.start(ManyNodes(clients), ArrayRecord([start]), 2)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(flatten(result.arrays), 2.0, rtol=1e-6)
    assert result.ledger.effective_samples == pytest.approx(9 * clients)
    return most


def test_the_servers_memory_does_not_grow_with_the_nodes(monkeypatch):
    monkeypatch.setattr("headwater.flower.exchange._POLL", 0.001)
    monkeypatch.setattr("headwater.flower.exchange._BYTES", 4 * SIZE * 4)
    few, many = peak(4), peak(100)
    # A hundred updates would take 200 MB; what is known of a client takes some kilobytes.
    assert many < few + 100 * 20_000
