"""The problem that the paper builds to bound the optimisation error from below, end to end through
simulate.

Θ = [−1, 1]², one client with a memory of one (FIFO), two samples z1, z2 ∈ {1, 2}: z1 is held in the
first half of the run, z2 in the second, with shares q and 1 − q of it. Everything about it can be
worked out:

    F(θ) = q ℓ(θ; z1) + (1 − q) ℓ(θ; z2),   σ̄² = 20 q (1 − q)
    z = (1, 2): min F = 2q(1−q) + 4q(1−q)/(1+q), the least on the line (θ, 0) is 12q(1−q)/(2+q), the
                difference 2q²(1−q)² / ((1+q)(2+q))
    In every round the iterate goes to the minimiser of what is in memory, (−1, 0) or (1, 0). So θ̄
    → (1 − 2q, 0) and F(θ̄) − min F → 2q²(1−q)²/(1+q). For z = (2, 1) q and 1 − q change places; for
    z1 = z2 nothing is left:

    ε_opt → ½ q²(1−q)² (1/(1+q) + 1/(2−q)) ≥ σ̄⁴/2400

The paper says that the difference is at least 6q(1−q), and so ε_opt ≥ 3/20·σ̄². Its own problem
does not give that: at q = 1/2 the least loss on the line is 1.2, and 6q(1−q) is 1.5. The error does
stay away from zero, by σ̄⁴ and with a smaller constant. The tests hold the numbers that follow from
the formulas, with the printed ones beside.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, minimize_scalar

import headwater as hw

SEQUENCES = list(product((1, 2), repeat=2))
WEIGHTS = {1 / 2: (1.0, 1.0), 3 / 4: (3.0, 1.0)}  # q, and weights of the two samples that give it


class Point(torch.nn.Module):
    """The parameters themselves, whatever the sample."""

    def __init__(self):
        super().__init__()
        self.theta = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))

    def forward(self, x):
        return self.theta.expand(len(x), 2)


def loss(theta, z):
    """ℓ(θ; 1) = (θ1 + 1)² + (θ1 + θ2 + 1)²/2, ℓ(θ; 2) = (θ1 − 1)²/2 + (θ1 + θ2 − 1)²/2."""
    sign, one = 3 - 2 * z, theta[..., 0]  # 1 or −1
    return (3 + sign) / 4 * (one + sign) ** 2 + (one + theta[..., 1] + sign) ** 2 / 2


def objective(theta, samples, q):
    theta = np.asarray(theta, float)
    return q * loss(theta, samples[0]) + (1 - q) * loss(theta, samples[1])


def least(samples, q):
    found = minimize(objective, [0.1, 0.1], (samples, q), bounds=[(-1, 1)] * 2, tol=1e-14)
    return found.x, found.fun


def least_on_the_line(samples, q):
    return minimize_scalar(
        lambda t: objective((t, 0), samples, q), bounds=(-1, 1), options={"xatol": 1e-12}
    ).fun


def gap(q):
    return 2 * q**2 * (1 - q) ** 2 / ((1 + q) * (2 + q))


def error_in_the_limit(q):
    return q**2 * (1 - q) ** 2 / 2 * (1 / (1 + q) + 1 / (2 - q))


@cache
def run(samples, q, rounds, arrivals="trace"):
    """T rounds of 20 steps: enough to arrive at the minimiser of what is in memory within a
    round."""
    half = rounds // 2
    process = {"trace": hw.Trace([1, *[0] * (half - 1), 1]), "constant": hw.Constant(1 / half)}[
        arrivals
    ]
    client = hw.Client(np.zeros(2), np.array(samples), arrivals=process, memory=hw.Fifo(1))
    return hw.simulate(
        Point(),
        [client],
        hw.Given(WEIGHTS[q]),
        rounds,
        local_steps=20,
        learning_rate=0.5,
        loss=loss,
        projection=hw.Box(-1, 1),
        workers=0,
    )


def output(result):
    return result.average.theta.detach().numpy()


def share_of_the_first_half(result):
    return float(result.ledger.round_shares[: len(result.history) // 2].sum())


def error(q, rounds):
    """ε_opt: the mean over the four equally likely streams."""
    excess = [objective(output(run(z, q, rounds)), z, q) - least(z, q)[1] for z in SEQUENCES]
    return float(np.mean(excess))


def noise(result):
    """σ̄² = Σ_t q(t) E max_θ ‖∇F − ∇F_t‖²; the difference is affine in θ, so the maximum is at a
    corner of Θ."""
    ledger, total = result.ledger, 0.0
    shares = ledger.sample_shares
    for t, q in enumerate(ledger.round_shares, start=1):
        held = ledger.weights_at(t) / ledger.weights_at(t).sum()
        total += q * np.mean(
            [largest_square(tuple((held - shares).tolist()), z) for z in SEQUENCES]
        )
    return total


@cache
def largest_square(coefficients, samples):
    squares = []
    for corner in product((-1.0, 1.0), repeat=2):
        theta = torch.tensor(corner, requires_grad=True)
        value = sum(c * loss(theta, z) for c, z in zip(coefficients, samples, strict=True))
        squares.append(float(torch.autograd.grad(value, theta)[0].square().sum()))
    return max(squares)


@pytest.mark.parametrize("q", [0.5, 0.6, 0.75, 0.9])
def test_the_minimiser_and_the_gap_are_as_worked_out(q):
    theta, value = least((1, 2), q)
    np.testing.assert_allclose(
        theta, [(1 - 3 * q) / (1 + q), 1 - 2 * q - (1 - 3 * q) / (1 + q)], atol=1e-6
    )
    assert value == pytest.approx(2 * q * (1 - q) + 4 * q * (1 - q) / (1 + q))
    line = least_on_the_line((1, 2), q)
    assert line == pytest.approx(12 * q * (1 - q) / (2 + q))
    assert line - value == pytest.approx(gap(q), rel=1e-6)
    assert line < 6 * q * (1 - q)  # what the paper says the *difference* is at least


def test_the_same_with_the_samples_exchanged():
    line, (_, value) = least_on_the_line((2, 1), 0.75), least((2, 1), 0.75)
    assert line - value == pytest.approx(gap(0.25), rel=1e-6)


@pytest.mark.parametrize("q", WEIGHTS)
@pytest.mark.parametrize("samples", SEQUENCES)
def test_the_output_is_the_mean_of_where_the_halves_go(samples, q):
    """θ(1) = (0, 0), then the first sample's minimiser for T/2 rounds, then the second's for T/2 −
    1."""
    rounds = 32
    result = run(samples, q, rounds)
    assert share_of_the_first_half(result) == pytest.approx(q)
    goal = {1: np.array([-1.0, 0.0]), 2: np.array([1.0, 0.0])}
    weights = result.ledger.round_shares
    path = (
        [np.zeros(2)] + [goal[samples[0]]] * (rounds // 2) + [goal[samples[1]]] * (rounds // 2 - 1)
    )
    np.testing.assert_allclose(output(result), weights @ np.array(path), atol=2e-3)


def test_arrivals_by_a_rate_are_the_same_problem():
    one, two = (run((1, 2), 1 / 2, 32, how) for how in ("trace", "constant"))
    np.testing.assert_array_equal(output(one), output(two))


@pytest.mark.parametrize("q", WEIGHTS)
def test_the_noise_is_what_the_ledger_says(q):
    """σ̄² = 20 q (1 − q): the ledger's variability 2q(1 − q) times σ0² = E max‖∇ℓ(z1) − ∇ℓ(z2)‖²/2
    = 10."""
    result = run((1, 2), q, 32)
    assert noise(result) == pytest.approx(20 * q * (1 - q))
    assert noise(result) == pytest.approx(10 * result.ledger.variability)


@pytest.mark.parametrize("q", WEIGHTS)
def test_the_error_stays_away_from_zero_however_long_the_run(q):
    """The error at T and 2T, and what they tend to (the difference halves with T, so twice one less
    the other)."""
    short, long = error(q, 32), error(q, 64)
    limit, sigma = error_in_the_limit(q), noise(run((1, 2), q, 32))
    assert 2 * long - short == pytest.approx(limit, rel=0.05)
    assert abs(long - limit) < 0.6 * abs(short - limit)
    for measured in (short, long):
        assert (
            measured >= (gap(q) + gap(1 - q)) / 4
        )  # the proof's argument, with the right difference
        assert measured >= sigma**2 / 2400
        assert measured < 3 / 20 * sigma  # the printed bound: more than the problem's error


def test_the_mean_of_equal_samples_is_learned_exactly():
    for z in (1, 2):
        excess = [objective(output(run((z, z), 1 / 2, T)), (z, z), 1 / 2) for T in (32, 64)]
        assert excess[1] < 0.3 * excess[0] < 3e-3  # falls with 1/T²: only the start is in the way
