"""The ledger's variability and N_eff against Monte-Carlo gradients of a real model.

The sharper bound rests on it.

Samples are drawn anew from a known distribution, again and again. For every draw the gradient ∇F_t
of each round's weighted loss, and that of the whole run's, ∇F = Σ_t q(t) ∇F_t, are computed by
backward passes through a network at one fixed θ. Nothing here knows how the ledger sums.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

import headwater as hw
from headwater.learning.engines.loop import gradient
from headwater.learning.estimation.gradients import mean_gradient, per_sample
from headwater.learning.problem import Problem
from headwater.ledger.ledger import Ledger

DRAWS = 200


@dataclass(frozen=True)
class Case:
    """A federation's schedule and its weights."""

    counts: list
    arrivals: list
    memory: list
    strategy: object
    rounds: int = 6

    def ledger(self):
        return Ledger.of(
            self.counts, self.arrivals, self.memory, self.strategy, self.rounds, seed=3
        )


old, new = (hw.Once(), hw.Keep()), (hw.Constant(3), hw.Fifo(3))
longer = (hw.Constant(3), hw.Fifo(7))


def case(strategy, *clients):
    counts, arrivals, memory = zip(*[(count, *rule) for count, rule in clients], strict=True)
    return Case(list(counts), list(arrivals), list(memory), strategy)


def fading(round):
    """Weights that change while a sample is held."""
    return 0.5 + np.sin(round + np.arange(22)) ** 2


CASES = {
    "paper's case, uniform": case(hw.Uniform(), (4, old), (18, new)),
    "paper's case, optimal": case(hw.Optimal(0.4), (6, old), (5, old), (18, new), (18, new)),
    "paper's case, sharp": case(hw.Optimal(0.4, bound="sharp"), (6, old), (18, new), (18, longer)),
    "fresh only": case(hw.Fresh(), (4, old), (18, new)),
    "longer memory, by memory": case(hw.ByMemory(), (4, old), (18, longer)),
    "longer memory, uniform": case(hw.Uniform(), (4, old), (18, longer)),
    "reservoir": case(hw.ByMemory(), (4, old), (18, (hw.Constant(3), hw.Reservoir(4)))),
    "poisson arrivals": case(hw.Uniform(), (4, old), (30, (hw.Poisson(3.0), hw.Fifo(4)))),
    "clients that come and go": case(
        hw.ByMemory(),
        (3, old),
        (6, (hw.Window(2, 3, hw.Constant(3)), hw.Keep())),
        (8, (hw.Window(4, 6), hw.Keep())),
    ),
    "recorded arrivals": case(
        hw.Share(0.3), (4, old), (12, (hw.Trace([5, 0, 3, 0, 4, 0]), hw.Fifo(5)))
    ),
    "weights that change": case(hw.Given(fading), (4, old), (18, new)),
}


class Network(nn.Module):
    """A small network with fixed weights."""

    def __init__(self):
        super().__init__()
        draw = torch.Generator().manual_seed(1)
        self.hidden, self.output = nn.Linear(3, 4), nn.Linear(4, 3)
        for p in self.parameters():
            p.data = torch.randn(p.shape, generator=draw)

    def forward(self, x):
        return self.output(torch.tanh(self.hidden(x)))


MODEL = Network()


def draw_samples(number, seed):
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(number, 3)).astype(np.float32)
    y = (x[:, 0] + 0.5 * draw.normal(size=number) > 0).astype(np.int64) + (x[:, 1] > 1)
    return torch.from_numpy(x), torch.from_numpy(y)


@pytest.fixture(scope="module")
def truth():
    """σ0² and the mean gradient of the distribution, from 60,000 samples."""
    problem = Problem(MODEL, *draw_samples(60_000, seed=0))
    everything = np.arange(60_000)
    found = per_sample(problem, problem.initial(), everything[:20_000]).deviation
    return found.sum() / (len(found) - 1), mean_gradient(
        problem, problem.initial(), everything
    ).double().numpy()


def monte_carlo(ledger, draw, model=MODEL, loss=hw.cross_entropy):
    """Σ_t q(t)·‖∇F − ∇F_t‖² and ∇F, for each of many draws of all samples."""
    every = [ledger.round(t) for t in range(1, ledger.holdings.rounds + 1)]
    weights = [np.repeat(r.shares, np.diff(r.offsets)) * r.weights for r in every]
    differences, gradients = [], []
    for k in range(DRAWS):
        problem = Problem(model, *draw(len(ledger.holdings.enter), seed=1000 + k), loss=loss)
        theta = problem.initial()
        parts = [
            gradient(problem, theta, r.samples, w) for r, w in zip(every, weights, strict=True)
        ]
        of_rounds = torch.stack(parts).double().numpy()
        of_run = ledger.round_shares @ of_rounds
        differences.append(ledger.round_shares @ np.square(of_rounds - of_run).sum(1))
        gradients.append(of_run)
    return np.array(differences), np.array(gradients)


def agrees(values, expected, power=0.08):
    """Is the mean within three standard errors, and are these small enough for that to mean
    something?"""
    error = values.std(ddof=1) / len(values) ** 0.5
    assert error < power * expected
    assert abs(values.mean() - expected) < 3 * error


@pytest.mark.parametrize("name", CASES)
def test_variability_and_effective_samples(name, truth):
    variance, mean = truth
    ledger = CASES[name].ledger()
    differences, gradients = monte_carlo(ledger, draw_samples)
    agrees(differences, variance * ledger.variability)
    agrees(np.square(gradients - mean).sum(1), variance / ledger.effective_samples)


def test_historical_clients_alone_have_none():
    ledger = case(hw.Historical(), (4, old), (18, new)).ledger()
    differences, _ = monte_carlo(ledger, draw_samples)
    assert ledger.variability < 1e-12
    assert differences.max() < 1e-10


def test_the_papers_noise_is_above_the_true_one(truth):
    """σ0²·(M − M_hist)·Σ_fresh p_m² is a bound: six times too large for two streams of three a
    round."""
    ledger = CASES["paper's case, optimal"].ledger()
    differences, _ = monte_carlo(ledger, draw_samples)
    papers = truth[0] * 2 * np.square(ledger.importance[2:]).sum()
    assert 5 * differences.mean() < papers < 10 * differences.mean()


class Line(nn.Module):
    """ŷ = ⟨w, x⟩ + b at θ = 0, where the gradient of (ŷ − y)²/2 is −y·(x, 1)."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x @ self.weight + self.bias


@pytest.mark.parametrize(
    "name", ["longer memory, by memory", "clients that come and go", "paper's case, uniform"]
)
def test_clients_of_different_distributions(name):
    """y = ±a + noise: mean gradients μ_m = ∓a·(0, 0, 1) differ, variances do not: 2·(a² + 1) + 1.

    The second term, Σ_t q(t)·‖Σ_m (p_m(t) − p_m) μ_m‖², is what drifting shares add.
    """
    ledger, a = CASES[name].ledger(), 2.0
    sign = np.where(np.arange(ledger.holdings.clients) % 2, 1.0, -1.0)

    def draw(number, seed):
        rng = np.random.default_rng(seed)
        y = a * sign[ledger.holdings.client] + rng.normal(size=number)
        return torch.from_numpy(rng.normal(size=(number, 2)).astype(np.float32)), torch.from_numpy(
            y.astype(np.float32)
        )

    differences, _ = monte_carlo(
        ledger, draw, Line(), lambda output, target: (output - target) ** 2 / 2
    )
    moved = (ledger.client_shares - ledger.importance) @ (a * sign)
    drift = ledger.round_shares @ np.square(moved)
    agrees(differences, (2 * (a**2 + 1) + 1) * ledger.variability + drift)
    assert (drift > 1e-12) == (ledger.drift > 1e-12) == (name != "paper's case, uniform")
