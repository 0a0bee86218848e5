"""The guard of Headwater's speed: counts, not seconds.

A call per client or a copy per step that comes back shows at once, on any machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from counting import Cost, of_a_round

from headwater.experiments.tasks.models import Logistic
from headwater.learning.federation import Client, Federation
from headwater.learning.simulation import simulate


def cost(network: torch.nn.Module, clients: int, samples: int, **settings: Any) -> Cost:
    """Of one round of Headwater in this process, on random data that fits the network."""
    random = np.random.default_rng(0)
    parameters = list(network.parameters())
    inputs, outputs = parameters[0].shape[1], len(parameters[-1])
    x = random.standard_normal((clients, samples, inputs), dtype=np.float32)
    y = random.integers(0, max(2, outputs), (clients, samples))
    federation = Federation.of([Client(x[m], y[m]) for m in range(clients)])
    return of_a_round(
        lambda rounds: simulate(network, federation, rounds=rounds, workers=0, **settings)
    )


@pytest.mark.parametrize("model", [torch.nn.Linear(20, 1), Logistic()], ids=["layer", "our own"])
def test_one_local_step_costs_the_same_number_of_calls_for_any_number_of_clients(
    model: torch.nn.Module,
) -> None:
    few, many = (cost(model, clients, 20) for clients in (20, 200))
    assert (many.tensor_calls, many.python_calls) == (few.tensor_calls, few.python_calls)
    assert many.tensor_calls <= 35
    assert many.python_calls <= 250
    # The features are read where they lie, not copied.
    assert many.tensor_bytes < 200 * 20 * 20 * 4 / 2


def test_sees_a_call_per_client() -> None:
    few, many = (cost(torch.nn.Linear(20, 1), clients, 20, engine="loop") for clients in (5, 10))
    assert many.tensor_calls > 1.8 * few.tensor_calls
    assert many.python_calls > 1.8 * few.python_calls


def test_local_steps_neither_copy_the_model_nor_form_its_gradient() -> None:
    network = torch.nn.Sequential(
        torch.nn.Linear(400, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
    )
    model_bytes = 4 * sum(p.numel() for p in network.parameters())
    settings = {"batch_size": 8, "learning_rate": 0.1, "engine": "sequential"}
    four, eight = (cost(network, clients, 40, local_steps=3, **settings) for clients in (4, 8))
    longer = cost(network, 8, 40, local_steps=6, **settings)
    a_step = (
        (longer.tensor_calls - eight.tensor_calls) / 24,
        (longer.tensor_bytes - eight.tensor_bytes) / 24,
    )
    a_client = (
        (eight.tensor_calls - four.tensor_calls) / 4,
        (eight.tensor_bytes - four.tensor_bytes) / 4,
    )
    assert a_step[0] <= 40
    assert a_step[1] < 0.75 * model_bytes
    assert a_client[0] - 3 * a_step[0] <= 8  # besides its steps: put the model in place, add it up
    assert a_client[1] - 3 * a_step[1] < 0.25 * model_bytes


def test_clients_in_lockstep_cost_no_calls_of_their_own_and_no_copy_of_the_model() -> None:
    network = torch.nn.Sequential(
        torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
    )
    settings = {"batch_size": 4, "learning_rate": 0.1, "local_steps": 3}
    # Both enough for large products, which may take another library and other calls.
    few, many = (cost(network, clients, 40, **settings) for clients in (36, 80))
    assert many.tensor_calls == few.tensor_calls <= 250
    samples = (
        44 * 3 * 4 * 4 * sum(p.shape[0] + p.shape[1] for p in network.parameters() if p.ndim == 2)
    )
    # A copy of the model for each client would be 14 times that.
    assert many.tensor_bytes - few.tensor_bytes < 8 * samples
