"""The measured horizon against matrices that are small enough to be written down."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import nll_loss
from torch.utils.checkpoint import checkpoint

import headwater as hw
from headwater.learning.estimation.curvature import Curvature, noise
from headwater.learning.estimation.horizon import (
    Found,
    choose_samples,
    measure_horizon,
    settle,
    together,
)
from headwater.learning.estimation.lanczos import Lanczos
from headwater.learning.estimation.measured import Uncertain
from headwater.learning.problem import Problem
from headwater.planner.horizon import Sums


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


def noise_of(problem, samples, probe):
    return noise(problem, problem.initial(), samples, 3, probe)


def test_the_noise_has_the_gradients_covariance():
    """Over many draws of the signs, each direction has its variance within four errors."""
    problem = logistic_problem()
    _, covariance = dense_curvature_and_noise(problem)
    names = [name for name, _ in problem.model.named_parameters()]
    assert names == ["weight", "bias"]
    draws = np.array([noise_of(problem, np.arange(60), probe).numpy() for probe in range(2000)])
    # The dense matrices have each class's weights and bias together, θ has all biases last.
    draws = np.concatenate([draws[:, :15].reshape(-1, 3, 5), draws[:, 15:, None]], 2).reshape(
        -1, 18
    )
    squares = draws**2
    error = squares.std(axis=0) / len(squares) ** 0.5
    assert (np.abs(squares.mean(axis=0) - np.diag(covariance) * 60 / 59) < 4 * error + 1e-12).all()


def test_products_are_those_of_the_dense_matrix():
    problem = logistic_problem()
    curvature, _ = dense_curvature_and_noise(problem)
    order = np.concatenate([np.arange(15).reshape(3, 5), 15 + np.arange(3)[:, None]], 1).ravel()
    vector = torch.randn(18, dtype=torch.float64)
    found = Curvature(problem, problem.initial(), np.arange(60))(vector)
    np.testing.assert_allclose(found.numpy()[order], curvature @ vector.numpy()[order], rtol=1e-10)


class Gated(nn.Module):
    """An LSTM, which PyTorch's forward mode does not know."""

    def __init__(self):
        super().__init__()
        self.cells = nn.LSTM(3, 4, batch_first=True)
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        return self.out(self.cells(x)[0][:, -1])


@pytest.mark.parametrize("module", [Gated, lambda: nn.Sequential(nn.Flatten(), nn.Linear(18, 3))])
def test_products_are_the_finite_difference_of_gradients_of_the_linearised_model(module):
    """Gauss–Newton is the Hessian of the loss of f(θ) + J·(θ' − θ); forward mode or without."""
    torch.manual_seed(4)
    problem = Problem(module().double(), torch.randn(20, 6, 3).double(), torch.randint(0, 3, (20,)))
    at, samples = problem.initial(), np.arange(20)
    vector = torch.randn_like(at)

    def outputs(theta):
        return torch.func.functional_call(problem.model, problem.views(theta), (problem.x,))

    jacobian = torch.autograd.functional.jacobian(outputs, at)
    probabilities = torch.softmax(outputs(at), 1)
    bend = torch.diag_embed(probabilities) - probabilities[:, :, None] * probabilities[:, None]
    exact = torch.einsum("nci,ncd,ndj,j->i", jacobian, bend, jacobian, vector) / 20
    torch.testing.assert_close(Curvature(problem, at, samples)(vector), exact)


@pytest.mark.parametrize("rate", [0.01, 0.3, 3.0])
def test_many_probes_give_the_horizon_of_the_dense_matrices(rate):
    problem = logistic_problem()
    curvature, covariance = dense_curvature_and_noise(problem)
    values, vectors = np.linalg.eigh(curvature)
    values = np.maximum(values, 0)
    along = np.einsum("ik,ij,jk->k", vectors, covariance, vectors)
    exact = 100 * Sums.of(values, values * along, 100 * rate).part
    every = np.arange(60)
    products = Curvature(problem, problem.initial(), every)
    probes = (Lanczos(products, noise_of(problem, every, k)) for k in range(400))
    found = [settle(probe, 100 * rate, steps=18) for probe in probes]
    tau, doubt = together(found, 100), 100 * max(one.doubt for one in found)
    assert tau.error < 0.1 * exact
    assert abs(tau.value - exact) < 3 * math.hypot(tau.error, doubt)


def test_halves_meet_the_true_curvature_on_average_and_the_same_samples_too_much():
    """The first moment zᵀGz is tr(CG) for others' curvature; of the same samples it is larger.

    Against the dense matrices of 20,000 samples, of which 64 are looked at, many times.
    """
    torch.manual_seed(0)
    x = torch.randn(20_000, 40, dtype=torch.float64)
    y = (x[:, 0] + torch.randn(20_000, dtype=torch.float64) > 0).long()
    many = Problem(nn.Linear(40, 2).double(), x, y)
    curvature, covariance = dense_curvature_and_noise(many)
    exact = np.trace(curvature @ covariance)

    def met(noisy, curved):
        start = noise(many, many.initial(), noisy, 0, 0)
        return float(start @ Curvature(many, many.initial(), curved)(start))

    few = np.arange(200 * 64).reshape(200, 64)
    halves = np.array([met(chosen[:32], chosen[32:]) for chosen in few])
    same = np.array([met(chosen, chosen) for chosen in few])
    assert abs(halves.mean() - exact) < 3 * halves.std() / len(few) ** 0.5
    assert same.mean() > 1.2 * exact


def test_probes_look_at_samples_of_their_own_in_two_halves():
    torch.manual_seed(2)
    x, y = torch.randn(600, 2), torch.randint(0, 3, (600,))
    stream = hw.Client(x[200:], y[200:], arrivals=hw.Constant(8), memory=hw.Fifo(8))
    holdings = hw.Federation.of([hw.Client(x[:200], y[:200]), stream]).holdings(50, 0)
    looks = choose_samples(holdings, round=3, probes=3, most=64, seed=0)
    held = set(np.flatnonzero(holdings.held(3)))
    for look in looks:
        assert len(look.noise) == len(look.curvature) == 32
        assert not set(look.noise) & set(look.curvature)
        assert set(look.noise) | set(look.curvature) <= held
        signs = noise_signs(look.noise)
        assert (signs > 0).sum() == (signs < 0).sum() == 16
    assert len({tuple(look.noise) for look in looks}) == 3
    last = max(max(set(look.noise) | set(look.curvature)) for look in looks)
    assert last >= 200 + 8  # some of what came after the first round is looked at, too


def test_what_is_held_after_the_pilot_is_looked_at_and_not_what_came_first():
    """One sample a round: in the first nothing could be measured, after thirty it can."""
    torch.manual_seed(6)
    x, y = torch.randn(60, 3), torch.arange(60) % 2
    stream = [hw.Client(x, y, arrivals=hw.Constant(1))]
    given = {"learning_rate": 0.5, "rounds": 60}
    assert measure_horizon(nn.Linear(3, 2), stream, **given, pilot_part=0) == Uncertain(60.0, 60.0)
    assert measure_horizon(nn.Linear(3, 2), stream, **given, pilot_part=0.5).error < 30


def noise_signs(samples):
    """The signs themselves: of samples each of which alone has an output."""
    problem = Problem(nn.Linear(600, 1, bias=False), torch.eye(600), torch.zeros(600), loss=alone)
    return noise(problem, problem.initial(), samples, 0, 0).numpy()[samples]


def alone(output, label):
    return output.flatten() + 0 * label


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6])
def test_two_samples_tell_nothing_and_the_error_says_so_and_three_tell_something(count):
    torch.manual_seed(count)
    x, y = torch.randn(count, 3), torch.arange(count) % 2
    for seed in range(8):
        found = measure_horizon(nn.Linear(3, 2), [hw.Client(x, y)], 3.0, 500, seed=seed)
        if count < 3:
            assert found == Uncertain(500.0, 500.0)
        else:
            assert 0 < found.value < 500


def test_doubts_are_in_the_error_beside_the_scatter():
    alike = [Found(Sums(1.0, 2.0), 0.03), Found(Sums(1.0, 2.0), 0.05)]
    assert together(alike, 100) == Uncertain(50.0, pytest.approx(4.0))
    apart = [Found(Sums(1.0, 2.0), 0.0), Found(Sums(2.0, 2.0), 0.0)]
    assert together(apart, 100) == Uncertain(75.0, pytest.approx(25.0))
    silent = [*apart, Found(Sums(0.0, 0.0), 1.0)]
    assert together(silent, 100) == Uncertain(75.0, pytest.approx(100 * np.hypot(0.25, 1 / 3)))


def test_a_derivative_that_is_not_finite_is_refused():
    """|o − y|^1.5 has no second derivative where the residual is 0."""
    model = nn.Linear(2, 1)
    x = torch.randn(40, 2)
    y = model(x)[:, 0].detach().clone()
    y[::2] += 1
    with pytest.raises(hw.InputError, match="not finite"):
        measure_horizon(
            model,
            [hw.Client(x, y)],
            0.01,
            40,
            loss=lambda o, y: (o[:, 0] - y).abs() ** 1.5,
            pilot_part=0,
        )


def test_a_loss_without_curvature_is_refused_and_cross_entropy_of_log_softmax_is_not():
    torch.manual_seed(3)
    clients = [hw.Client(torch.randn(60, 4), torch.arange(60) % 3)]
    model = nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(1))
    with pytest.raises(hw.InputError, match=r"LogSoftmax.*horizon"):
        measure_horizon(model, clients, 0.3, 50, loss=partial(nll_loss, reduction="none"))
    assert measure_horizon(model, clients, 0.3, 50).value < 50


class StraightThrough(nn.Module):
    """Rounds on the way on, and not on the way back: forward mode would see the rounding."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(5, 6), nn.Linear(6, 2)

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        with torch.no_grad():
            rounding = 0.5 * hidden.sin() - hidden
        return self.second(hidden + rounding)


class Recomputed(nn.Module):
    """Forgets what it has computed on the way on, and computes it again on the way back."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(5, 6), nn.Linear(6, 2)

    def forward(self, x):
        hidden = checkpoint(lambda x: torch.tanh(self.first(x)), x, use_reentrant=False)
        return self.second(hidden)


@pytest.mark.parametrize(
    "model",
    [StraightThrough, Recomputed, lambda: nn.Sequential(nn.Linear(5, 4), nn.GroupNorm(2, 4))],
)
def test_the_product_is_symmetric_whatever_the_model_does(model):
    torch.manual_seed(5)
    outputs = 4 if isinstance(model(), nn.Sequential) else 2
    problem = Problem(model().double(), torch.randn(30, 5).double(), torch.arange(30) % outputs)
    times = Curvature(problem, problem.initial(), np.arange(30))
    one, other = torch.randn(2, problem.size, dtype=torch.float64)
    assert float(one @ times(other)) == pytest.approx(float(other @ times(one)), rel=1e-9)


def test_a_user_s_own_error_is_raised_once():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(3, 2)

        def forward(self, x):
            if x.shape[0] == 4:  # the few samples on which derivatives are tried
                raise RuntimeError("a mistake of the user's")
            return self.out(x)

    problem = Problem(Broken(), torch.randn(30, 3), torch.arange(30) % 2)
    with pytest.raises(RuntimeError, match="a mistake of the user's") as caught:
        Curvature(problem, problem.initial(), np.arange(30))
    assert caught.value.__context__ is None


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


@pytest.mark.parametrize("name", ["samples", "probes", "steps"])
@pytest.mark.parametrize("value", [0, 2.5, True])
def test_what_is_no_number_of_them_is_refused(name, value):
    clients = [hw.Client(torch.randn(5, 2), torch.zeros(5).long())]
    with pytest.raises(hw.InputError, match=name):
        measure_horizon(nn.Linear(2, 2), clients, 0.1, 5, **{name: value})


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
