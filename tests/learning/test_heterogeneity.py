"""How much clients differ: planted variances are found again, with an honest error."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import headwater as hw
from headwater.learning.estimation import resolve
from headwater.learning.estimation.heterogeneity import combine, measure_heterogeneity

WIDTH = 6


def output(outputs, labels):
    """A loss whose gradient by the weights is the sample itself."""
    return outputs.flatten()


def planted(rho, seed, clients=12, samples=9, fresh=0):
    """Samples b_m + ε with variance ρ between and 1 within, in every direction."""
    rng = np.random.default_rng(seed)
    federation = []
    for m in range(clients):
        x = rng.normal(size=WIDTH) * math.sqrt(rho) + rng.normal(size=(samples + m % 4, WIDTH))
        how = {"arrivals": hw.Constant(3), "memory": hw.Fifo(3)} if m < fresh else {}
        federation.append(hw.Client(x, np.zeros(len(x)), **how))
    return federation


def found(rho, seed, **how):
    model = nn.Linear(WIDTH, 1, bias=False)
    return measure_heterogeneity(model, planted(rho, seed, **how), output, seed, rounds=5)


@pytest.mark.parametrize("rho", [0.13, 1.0])
@pytest.mark.parametrize("fresh", [0, 6])
def test_planted_variances_are_found_without_bias(rho, fresh):
    many = [found(rho, seed, fresh=fresh) for seed in range(120)]
    for values, expected in (
        ([f.within for f in many], WIDTH),
        ([f.between for f in many], WIDTH * rho),
    ):
        error = np.std(values, ddof=1) / math.sqrt(len(values))
        assert abs(np.mean(values) - expected) < 3.5 * error
    scatter = np.std([f.ratio.value for f in many], ddof=1)
    claimed = math.sqrt(np.mean([f.ratio.error**2 for f in many]))
    assert 0.75 * scatter < claimed < 1.4 * scatter


def test_clients_that_are_alike_differ_by_nothing_beyond_the_error():
    many = [found(0.0, seed).ratio for seed in range(40)]
    assert all(r.value >= 0 for r in many)
    assert np.mean([r.value < 2.5 * r.error + 1e-9 for r in many]) > 0.9
    assert np.mean([r.value for r in many]) < 0.05


def test_clients_of_few_samples_that_scatter_more_are_not_taken_for_different():
    """Each client's mean is relieved of its own noise: a common one would leave 0.3 here."""
    ratios = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        sizes = [2, 2, 2, 3, 3, 4, 30, 30, 30, 30]
        rows = [rng.normal(size=(n, WIDTH)) * (3 if n < 5 else 1) for n in sizes]
        clients = [hw.Client(x, np.zeros(len(x))) for x in rows]
        model = nn.Linear(WIDTH, 1, bias=False)
        result = measure_heterogeneity(model, clients, output, seed, rounds=2)
        means = np.array([x.mean(axis=0) for x in rows])
        spread = np.square(means - means.mean(axis=0)).sum() / (len(rows) - 1)
        own = np.mean([x.var(axis=0, ddof=1).sum() / len(x) for x in rows])
        ratios.append((spread - own) / result.within)
        assert result.ratio.value == pytest.approx(max(ratios[-1], 0), abs=1e-4)
    assert abs(np.mean(ratios)) < 3.5 * np.std(ratios) / math.sqrt(len(ratios))


def test_the_variances_are_those_of_the_definition():
    clients = planted(0.5, 3)
    result = measure_heterogeneity(nn.Linear(WIDTH, 1, bias=False), clients, output, rounds=5)
    rows = [c.x.double().numpy() for c in clients]
    counts = np.array([len(r) for r in rows])
    means = np.array([r.mean(axis=0) for r in rows])
    within = sum(np.square(r - r.mean(axis=0)).sum() for r in rows) / (counts - 1).sum()
    between = np.square(means - means.mean(axis=0)).sum() / (len(rows) - 1)
    assert result.within == pytest.approx(within, rel=1e-5)
    own = np.mean([r.var(axis=0, ddof=1).sum() / len(r) for r in rows])
    assert result.between == pytest.approx(between - own, rel=1e-5)


def test_leaving_out_a_client_is_leaving_out_a_client():
    rng = np.random.default_rng(0)
    counts, means = rng.integers(2, 9, 7), rng.normal(size=(7, 3))
    inner = rng.uniform(1, 2, 7) * (counts - 1)

    def ratio(who):
        outer = np.square(means[who] - means[who].mean(axis=0)).sum(axis=1)
        return combine(counts[who], inner[who], outer).ratio

    left = [ratio(np.arange(7) != m).value for m in range(7)]
    assert ratio(np.arange(7)).error == pytest.approx(math.sqrt(6 * np.var(left)))


def test_no_more_clients_and_samples_than_asked_for(monkeypatch):
    seen = []
    real = hw.learning.estimation.heterogeneity.per_sample
    monkeypatch.setattr(
        "headwater.learning.estimation.heterogeneity.per_sample",
        lambda problem, at, samples: seen.append(len(samples)) or real(problem, at, samples),
    )
    model = nn.Linear(WIDTH, 1, bias=False)
    result = measure_heterogeneity(
        model, planted(0.1, 0), output, rounds=5, most_clients=5, most_samples=4
    )
    assert result.clients == 5
    assert seen == [4] * 5


def test_one_client_cannot_differ_and_too_few_samples_cannot_tell():
    model = nn.Linear(WIDTH, 1, bias=False)
    assert measure_heterogeneity(model, planted(1.0, 0, clients=1), output).ratio.value == 0
    lonely = planted(1.0, 0, clients=2)
    late = hw.Client(lonely[1].x, lonely[1].y, arrivals=hw.Window(3, 5))
    with pytest.raises(hw.InputError, match=r"Remembered\(heterogeneity=0.1\)"):
        measure_heterogeneity(model, [lonely[0], late], output, rounds=5)
    assert measure_heterogeneity(model, lonely, output).ratio.error == math.inf


@pytest.mark.parametrize("kind", [hw.Remembered, hw.RememberedOnline])
def test_a_run_measures_it_by_itself(kind):
    model = nn.Linear(WIDTH, 1, bias=False)
    clients = planted(1.0, 0)
    run = hw.simulate(model, clients, kind(0.5), rounds=3, loss=output, learning_rate=0.01)
    expected = measure_heterogeneity(model, clients, output, rounds=3).ratio.value
    assert run.strategy == kind(0.5, expected)
    federation = hw.Federation.of(clients)
    given = resolve(kind(0.5, 0.2), model, federation, federation.holdings(3), output)
    assert given == kind(0.5, 0.2)
    assert torch.isfinite(run.state.parameters).all()
