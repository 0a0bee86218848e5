"""Samples in files, rounds that come one by one: the model is that of a run with all in memory."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
import torch

import headwater as hw
from headwater.learning.algorithm import State, learn
from headwater.learning.arrays import features
from headwater.learning.engines import choose
from headwater.learning.problem import Problem
from headwater.ledger.flow import Flow
from headwater.ledger.orders import LocalWork

ROUNDS = 20


@pytest.mark.parametrize("steps", [1, 2])
def test_a_flow_over_mapped_files_gives_the_bits_of_a_simulation(tmp_path, steps):
    random = np.random.default_rng(0)
    x = random.normal(size=(3 * 80, 5)).astype(np.float32)
    y = random.integers(0, 2, len(x))
    for name, values in (("x", x), ("y", y)):
        values.tofile(tmp_path / name)
    rules = hw.Constant(4), hw.Fifo(12)
    torch.manual_seed(0)
    model = torch.nn.Linear(5, 2)
    clients = [hw.Client(x[k : k + 80], y[k : k + 80], *rules) for k in (0, 80, 160)]
    wanted = hw.simulate(model, clients, hw.ByMemory(), ROUNDS, steps, 4, 0.1, seed=3)

    mapped = np.memmap(tmp_path / "x", np.float32, "c").reshape(-1, 5)
    part = hw.Part(
        torch.from_numpy(mapped),
        torch.from_numpy(np.memmap(tmp_path / "y", np.int64, "c")),
        np.arange(4) * 80,
    )
    flow = Flow(part.counts, *rules, last=ROUNDS, seed=3)
    work = LocalWork(steps, 4, seed=3)
    problem = Problem.of(model, part, seed=3)
    assert problem.x.data_ptr() == mapped.ctypes.data  # read where it lies
    with closing(choose(problem, work.orders(next(flow.rounds())))) as engine:
        rounds = learn(State.start(problem.initial()), flow, work, engine, [0.1] * ROUNDS)
        *_, (state, _) = rounds
    torch.testing.assert_close(state.parameters, wanted.state.parameters, rtol=0, atol=0)
    torch.testing.assert_close(state.average, wanted.state.average, rtol=1e-12, atol=1e-12)


def test_a_number_that_is_not_finite_is_found_wherever_it_stands(monkeypatch):
    monkeypatch.setattr("headwater.learning.arrays._PIECE", 3)
    for bad in range(8):
        values = torch.zeros(8, 2)
        values[bad, 1] = torch.nan
        with pytest.raises(hw.InputError, match=f"sample {bad} has NaN"):
            features(values)
