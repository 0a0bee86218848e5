"""A stream whose samples tell their arrival numbers, and a process that takes it in."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import headwater as hw
from headwater.devices.memory import Batch, DurableMemory
from headwater.devices.memory.database import Database
from headwater.devices.memory.schema import Schema

SCHEMA = Schema.classes((3,), 10)


def features(positions):
    """Three numbers that follow from the arrival number."""
    return np.asarray(positions)[:, None] + np.array([0.25, 0.5, 0.75])


def stream(first, count):
    """Samples first … first + count − 1."""
    positions = np.arange(first, first + count)
    return Batch(features(positions), positions % 10)


def open_memory(path, rule, client=0, seed=0, **how):
    """The memory in a file."""
    return DurableMemory(Database(Path(path), **how), rule, SCHEMA, client, seed)


def check_whole(memory):
    """Every sample held is one of the stream, unspoiled, and there are as many as it says."""
    snapshot = memory.snapshot()
    np.testing.assert_array_equal(snapshot.x, features(snapshot.positions).astype(np.float32))
    np.testing.assert_array_equal(snapshot.y, snapshot.positions % 10)
    assert len(snapshot.positions) == memory.held
    assert memory.rule.capacity is None or memory.held <= memory.rule.capacity
    return snapshot


def expected(rule, client, seed, arrived):
    """Who is in memory after so many arrivals, one a round, by the simulator's ledger."""
    counts = np.full(client + 1, max(arrived, 1))
    holdings = hw.unroll(counts, hw.Constant(1), rule, max(arrived, 1), seed)
    mine = slice(holdings.offsets[client], holdings.offsets[client + 1])
    return np.flatnonzero(holdings.held(max(arrived, 1))[mine])


def main(path, batch):
    """Take in batch after batch, and tell after each how many samples are safe."""
    memory = open_memory(path, hw.Reservoir(50), client=3, seed=7)
    while True:
        memory.take_in(stream(memory.arrived, int(batch)))
        print(memory.arrived, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
