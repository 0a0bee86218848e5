"""The measured horizon against matrices that are small enough to be written down."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import headwater as hw
from headwater.learning.estimation.curvature import spectrum
from headwater.learning.estimation.horizon import measure_horizon
from headwater.learning.problem import Problem
from headwater.planner.horizon import remembered_rounds


def logistic_problem(samples=60, features=5, classes=3):
    torch.manual_seed(0)
    x = torch.randn(samples, features, dtype=torch.float64) * torch.tensor(
        [3.0, 1.0, 0.5, 0.1, 0.02]
    )
    y = torch.randint(0, classes, (samples,))
    model = nn.Linear(features, classes).double()
    return Problem(model, x, y)


def dense_curvature_and_noise(problem):
    """Jᵀ(diag(p) − ppᵀ)J and the gradients' covariance, by hand for softmax regression."""
    x = torch.cat([problem.x, torch.ones(len(problem.x), 1, dtype=torch.float64)], 1).numpy()
    logits = problem.model(problem.x).detach()
    p = torch.softmax(logits, 1).numpy()
    classes = p.shape[1]
    curvature = np.zeros((classes * x.shape[1],) * 2)
    gradients = []
    for row, probabilities, label in zip(x, p, problem.y.numpy(), strict=True):
        outer = np.outer(row, row)
        curvature += np.kron(np.diag(probabilities) - np.outer(probabilities, probabilities), outer)
        gradients.append(np.kron(probabilities - np.eye(classes)[label], row))
    gradients = np.array(gradients) - np.mean(gradients, axis=0)
    return curvature / len(x), gradients.T @ gradients / len(x)


@pytest.mark.parametrize("rate", [0.01, 0.3, 3.0])
def test_many_probes_give_the_horizon_of_the_dense_matrices(rate):
    problem = logistic_problem()
    curvature, covariance = dense_curvature_and_noise(problem)
    values, vectors = np.linalg.eigh(curvature)
    noise = np.einsum("ik,ij,jk->k", vectors, covariance, vectors)
    exact = remembered_rounds(np.maximum(values, 0), noise, rate, 100)
    found = spectrum(problem, problem.initial(), np.arange(60), probes=400, steps=12, seed=3)
    tau, error = found.horizon(rate, 100)
    assert error < 0.04 * exact
    assert abs(tau - exact) < 3 * error


def test_the_nodes_carry_the_whole_noise_and_its_mean_curvature():
    """Σ w = ‖z‖² and Σ w ν = zᵀ G z: the first moments of Gauss's quadrature are exact."""
    problem = logistic_problem()
    curvature, covariance = dense_curvature_and_noise(problem)
    found = spectrum(problem, problem.initial(), np.arange(60), probes=400, steps=4, seed=1)
    total = found.noise.sum(axis=1)
    first = (found.noise * found.curvature).sum(axis=1)
    for values, exact in ((total, np.trace(covariance)), (first, np.trace(covariance @ curvature))):
        assert abs(values.mean() - exact) < 3 * values.std() / len(values) ** 0.5


def test_a_recurrent_network_and_a_regression_can_be_measured():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.RNN(3, 4, batch_first=True)
            self.out = nn.Linear(4, 1)

        def forward(self, x):
            return self.out(self.rnn(x)[0][:, -1])

    torch.manual_seed(1)
    x, y = torch.randn(30, 6, 3), torch.randn(30, 1)
    found = measure_horizon(
        Last(), [hw.Client(x, y)], 0.1, 50, loss=lambda out, y: (out - y).square().sum(1)
    )
    assert 0 < found.value <= 50
    assert 0 < found.error < 25


def test_the_callers_model_is_not_changed():
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x, y = torch.randn(40, 4), torch.randint(0, 2, (40,))
    first = measure_horizon(model, [hw.Client(x, y)], 0.1, 50)
    assert first == measure_horizon(model, [hw.Client(x, y)], 0.1, 50)
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_rate_that_is_none_is_refused():
    with pytest.raises(hw.InputError, match="learning_rate"):
        measure_horizon(
            nn.Linear(2, 2), [hw.Client(torch.randn(5, 2), torch.zeros(5).long())], 0.0, 5
        )


def test_simulate_measures_the_horizon_at_the_run_s_own_rate():
    """A faster run forgets sooner, so its streams count less against the same history."""
    torch.manual_seed(2)
    x, y = torch.randn(300, 4), torch.randint(0, 2, (300,))
    clients = [
        hw.Client(x[:60], y[:60]),
        hw.Client(x[60:], y[60:], arrivals=hw.Constant(4), memory=hw.Fifo(4)),
    ]

    def run(rate):
        rule = hw.Remembered(heterogeneity=0.0)
        return hw.simulate(
            nn.Linear(4, 2), clients, rule, rounds=60, local_steps=3, learning_rate=rate
        )

    slow, fast = run(0.003), run(1.0)
    direct = measure_horizon(slow.problem.model, clients, 0.003, 60, 3)
    assert slow.strategy.horizon == pytest.approx(direct.value / 60)
    assert 0 < fast.strategy.horizon < 0.5 < slow.strategy.horizon <= 1
    assert fast.ledger.importance[0] > slow.ledger.importance[0] + 0.1


def test_optimisers_of_one_s_own_need_a_horizon_of_one_s_own():
    x, y = torch.randn(40, 4), torch.randint(0, 2, (40,))
    clients = [hw.Client(x[:20], y[:20]), hw.Client(x[20:], y[20:])]
    given = {"rounds": 4, "server": hw.Momentum(0.9)}
    with pytest.raises(hw.InputError, match=r"horizon.*server="):
        hw.simulate(nn.Linear(4, 2), clients, hw.Remembered(heterogeneity=0.0), **given)
    forgetful = hw.Forgetting(hw.Remembered(heterogeneity=0.0))
    with pytest.raises(hw.InputError, match=r"Remembered\(\) measures its horizon"):
        hw.simulate(nn.Linear(4, 2), clients, forgetful, **given)
    hw.simulate(nn.Linear(4, 2), clients, hw.Remembered(0.25, 0.0), **given)


def test_the_online_form_gets_rounds():
    """A fraction would be one of the rounds so far, and no longer what was measured."""
    x, y = torch.randn(40, 4), torch.randint(0, 2, (40,))
    clients = [hw.Client(x[:20], y[:20]), hw.Client(x[20:], y[20:])]
    rule = hw.RememberedOnline(None, 0.0)
    run = hw.simulate(nn.Linear(4, 2), clients, rule, rounds=30, learning_rate=0.3)
    measured = measure_horizon(run.problem.model, clients, 0.3, 30).value
    assert run.strategy.horizon == max(1, round(measured))


def test_without_gradients_around_it_is_measured_all_the_same():
    client = hw.Client(torch.randn(20, 4), torch.randint(0, 2, (20,)))
    with torch.no_grad():
        assert measure_horizon(nn.Linear(4, 2), [client], 0.1, 50).value > 0
