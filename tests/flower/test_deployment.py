"""Real parts: flower-superlink with TLS and node keys, flower-supernodes, flwr run."""

from __future__ import annotations

import numpy as np
import pytest
from flower_bench import Bench
from test_same_answer import simulated, vector

import headwater as hw


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    bench = Bench(tmp_path_factory.mktemp("bench"))
    yield bench
    bench.close()


@pytest.mark.parametrize("batch_size", [0, 3])
def test_three_nodes_on_flower_give_the_simulators_model(bench, tmp_path, batch_size):
    settings = {"local_steps": 2, "batch_size": batch_size, "learning_rate": 0.2, "seed": 5}
    bench.submit(tmp_path, num_rounds=2, min_clients=3, **settings)
    bench.wait_for_model(tmp_path)
    settings["batch_size"] = batch_size or None
    run = simulated(hw.Uniform(), 2, **settings)
    with np.load(tmp_path / "model.npz") as saved:
        found = np.concatenate([saved[name].reshape(-1) for name in saved.files])
    np.testing.assert_allclose(found, vector(run.model), atol=1e-5)
