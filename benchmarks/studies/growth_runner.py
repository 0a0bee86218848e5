"""One point of the curves of growth: Headwater with so many clients, parameters and samples in
memory."""

import contextlib
import json
import sys

import numpy as np
import torch
from torch import nn

import headwater as hw
from benchmarks.peers.gate import Finished, Gate
from benchmarks.studies.growth_points import FEATURES, Point

MOST_ROWS = 10_000_000


def network(hidden: int) -> nn.Module:
    """Logistic regression, or a network with one hidden layer."""
    if hidden == 0:
        return nn.Linear(FEATURES, 1)
    return nn.Sequential(nn.Linear(FEATURES, hidden), nn.ReLU(), nn.Linear(hidden, 1))


def federation(point: Point) -> hw.Federation:
    """All samples there from the beginning, or a stream into memories of limited size."""
    samples = point.clients * point.samples
    # Of a long stream the features come round again: what is measured does not depend on them.
    rows = min(samples, MOST_ROWS)
    x, y = torch.randn(rows, FEATURES), torch.randint(0, 2, (rows,))
    edges = np.arange(0, samples + 1, point.samples)
    again = None if rows == samples else np.arange(samples) % rows
    arrivals: hw.Once | hw.Constant = hw.Constant(point.arriving) if point.arriving else hw.Once()
    memory: hw.Keep | hw.Fifo = hw.Fifo(point.capacity) if point.arriving else hw.Keep()
    part = hw.Part(x, y, edges, again)
    return hw.Federation(part, [arrivals] * point.clients, [memory] * point.clients)


def main() -> None:
    """Serve rounds of the point described by the JSON given."""
    point = Point(**json.loads(sys.argv[1]))
    torch.manual_seed(0)
    model, data = network(point.hidden), federation(point)
    gate = Gate(lambda: [], ["headwater", "torch"])
    gate.arrive()
    with contextlib.suppress(Finished):
        hw.simulate(
            model,
            data,
            hw.ByMemory(),
            point.rounds,
            point.steps,
            point.batch,
            0.01,
            progress=gate.enter,
        )


if __name__ == "__main__":
    main()
