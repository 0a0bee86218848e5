"""The server's rounds give the simulator's model: same ledger, same batches, same shares."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord
from toy_node import model, three_clients

import headwater as hw
from headwater.flower import StreamFedAvg
from headwater.flower.importance import HETEROGENEITY
from headwater.flower.messages import flatten


def initial():
    return ArrayRecord(model().state_dict())


def simulated(strategy, rounds, **settings):
    kinds = {"once": lambda d: hw.Once(), "constant": lambda d: hw.Constant(d["rate"])}
    clients = [
        hw.Client(x, y, kinds[d["kind"]](d), hw.Fifo(size) if rule == "Fifo" else hw.Keep())
        for x, y, d, rule, size in three_clients()
    ]
    return hw.simulate(model(), clients, strategy, rounds, test_every=0, **settings)


def vector(module):
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()]).numpy()


@pytest.mark.parametrize("batch_size", [None, 3])
@pytest.mark.parametrize("strategy", [hw.Uniform(), hw.Optimal(0.3), hw.ByMemory()])
def test_declared_arrivals_give_the_simulators_model(fleet, strategy, batch_size):
    settings = {"local_steps": 3, "batch_size": batch_size, "learning_rate": 0.2, "seed": 5}
    result = StreamFedAvg(strategy, min_clients=3, **settings).start(fleet, initial(), 8)
    run = simulated(strategy, 8, **settings)
    np.testing.assert_allclose(flatten(result.arrays), vector(run.model), atol=1e-5)
    np.testing.assert_allclose(flatten(result.average), vector(run.average), atol=1e-5)
    np.testing.assert_allclose(result.ledger.client_shares, run.ledger.client_shares, atol=1e-9)
    np.testing.assert_allclose(result.ledger.round_shares, run.ledger.round_shares, atol=1e-9)


def test_remembered_samples_with_declared_arrivals_have_the_defaults_of_a_live_server(fleet):
    result = StreamFedAvg(hw.Remembered(), min_clients=3, seed=5).start(fleet, initial(), 8)
    run = simulated(hw.Remembered(0.25, HETEROGENEITY), 8, seed=5)
    np.testing.assert_allclose(flatten(result.arrays), vector(run.model), atol=1e-5)


@pytest.mark.parametrize("batch_size", [None, 2])
def test_samples_of_weight_zero_are_held_and_do_not_count(fleet, batch_size):
    weights = np.random.default_rng(0).integers(0, 2, 100).astype(float)
    weights[[0, 20, 60]] = 1.0, 0.0, 0.0
    settings = {"local_steps": 2, "batch_size": batch_size, "seed": 5}
    strategy = StreamFedAvg(hw.Given(weights), min_clients=3, quorum=1.0, **settings)
    result = strategy.start(fleet, initial(), 8)
    run = simulated(hw.Given(weights), 8, **settings)
    np.testing.assert_allclose(flatten(result.arrays), vector(run.model), atol=1e-5)


def test_a_projection_and_some_clients_only_give_the_simulators_model(fleet):
    settings = {"local_steps": 2, "learning_rate": 0.5, "seed": 3, "participation": 2}
    result = StreamFedAvg(min_clients=3, projection=hw.Ball(0.7), **settings).start(
        fleet, initial(), 6
    )
    run = simulated(hw.Uniform(), 6, projection=hw.Ball(0.7), **settings)
    np.testing.assert_allclose(flatten(result.arrays), vector(run.model), atol=1e-5)
    assert np.linalg.norm(flatten(result.arrays)) <= 0.7 + 1e-6


def test_the_ledger_of_a_real_run_reads_like_a_simulated_ones(fleet):
    result = StreamFedAvg(hw.ByMemory(), min_clients=3).start(fleet, initial(), 8)
    expected = simulated(hw.ByMemory(), 8).ledger
    assert result.ledger.effective_samples == pytest.approx(expected.effective_samples)
    assert result.ledger.variability == pytest.approx(expected.variability)
    np.testing.assert_allclose(result.ledger.importance, expected.importance)
