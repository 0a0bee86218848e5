"""The pilot before the horizon is measured: the first rounds of the run, and nothing else."""

import numpy as np
import pytest
import torch
from torch import nn

import headwater as hw
from headwater.learning.estimation.horizon import measure_horizon
from headwater.learning.estimation.pilot import pilot
from headwater.learning.problem import Problem
from headwater.ledger.orders import LocalWork


@pytest.fixture
def clients():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 4)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int64)
    stream = {"arrivals": hw.Constant(5), "memory": hw.Fifo(10)}
    return [hw.Client(x[:50], y[:50]), hw.Client(x[50:], y[50:], **stream)]


def network():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))


class Stop(hw.Callback):
    """End a run early, as if somebody had watched."""

    def __init__(self, last):
        self.last = last

    def after_round(self, moment):
        return moment.record.round == self.last


@pytest.mark.parametrize("batch_size", [None, 4])
def test_it_is_the_first_rounds_of_the_run(clients, batch_size):
    given = {"rounds": 40, "local_steps": 3, "batch_size": batch_size, "learning_rate": 0.5}
    run = hw.simulate(network(), clients, **given, seed=7, callbacks=[Stop(5)])
    federation = hw.Federation.of(clients)
    problem = Problem.of(network(), federation.train)
    work = LocalWork(3, batch_size, seed=7)
    found = pilot(problem, federation.holdings(40, 7), work, 0.5, 5)
    expected = torch.cat([value.flatten() for value in run.model.parameters()])
    assert len(run.history) == 5
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(found, problem.initial(), atol=1e-3)


def test_it_is_measured_where_the_pilot_leads(clients):
    """An independent way: stop a run of the same length half-way, and measure at its model."""
    still = [hw.Client(client.x, client.y) for client in clients]
    run = hw.simulate(network(), still, rounds=40, learning_rate=0.5, callbacks=[Stop(20)])
    found = measure_horizon(network(), still, 0.5, 40, pilot_part=0.5)
    there = measure_horizon(run.model, still, 0.5, 40, pilot_part=0)
    at_start = measure_horizon(network(), still, 0.5, 40, pilot_part=0)
    assert found.value == pytest.approx(there.value, rel=1e-3)
    assert found.value != pytest.approx(at_start.value, rel=1e-2)


def test_batches_of_the_pilot_are_those_of_the_run(clients):
    given = {"learning_rate": 0.5, "rounds": 40, "local_steps": 3}
    small = measure_horizon(network(), clients, **given, batch_size=2)
    full = measure_horizon(network(), clients, **given)
    assert small.value != full.value


def test_a_linear_model_remembers_as_long_after_the_pilot(clients):
    """Squared error has the same curvature everywhere; only the noise moves a little."""
    flat = {"loss": hw.squared_error, "learning_rate": 0.05, "rounds": 40}
    real = [hw.Client(client.x, np.float32(client.y)) for client in clients]
    model = nn.Linear(4, 1)
    with_pilot = measure_horizon(model, real, **flat)
    without = measure_horizon(model, real, **flat, pilot_part=0)
    assert with_pilot.value == pytest.approx(without.value, rel=0.1)


def test_a_part_that_is_none_is_refused(clients):
    with pytest.raises(hw.InputError, match="pilot_part"):
        measure_horizon(network(), clients, 0.1, 10, pilot_part=1.5)
