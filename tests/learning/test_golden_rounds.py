"""Rounds of Algorithm 1 with numbers computed by hand: two clients, two parameters, every engine.

The model is f(x) = θ·x, the loss (f(x) − y)²/2, so a sample's gradient is (θ·x − y)·x. Client 0
keeps two samples, a = ((1, 0), 1) and b = ((0, 1), 2). Client 1 holds c = ((1, 1), 0) in round 1
and d = ((2, 0), 2) in round 2. The learning rate is 1/2.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import headwater as hw
from headwater.randomness import Purpose, uniform

ONE_STEP = ["loop", "fused", "lockstep", "batched", "sequential"]
STEPS = ["loop", "lockstep", "batched", "sequential"]


def linear(start=(0.0, 0.0)):
    model = torch.nn.Linear(2, 1, bias=False).double()
    model.weight.data = torch.tensor([start], dtype=torch.float64)
    return model


def half_square(output, target):
    return (output[:, 0] - target) ** 2 / 2


def pair(*samples, **how):
    """A client with samples ((x1, x2), y)."""
    return hw.Client(
        np.array([x for x, _ in samples], float), np.array([y for _, y in samples], float), **how
    )


A, B, C, D = ((1, 0), 1), ((0, 1), 2), ((1, 1), 0), ((2, 0), 2)


def two_clients():
    return [pair(A, B), pair(C, D, arrivals=hw.Constant(1), memory=hw.Fifo(1))]


def run(clients, start=(0.0, 0.0), rounds=2, **settings):
    settings = {"learning_rate": 0.5, "loss": half_square, "workers": 0, **settings}
    return hw.simulate(linear(start), clients, rounds=rounds, **settings)


def ends(result, last, average):
    np.testing.assert_allclose(
        result.model.weight.detach()[0].numpy(), last, rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(
        result.average.weight.detach()[0].numpy(), average, rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("engine", ONE_STEP)
def test_one_local_step_with_the_whole_memory(engine, workers):
    """Uniform: a and b are held twice, λ = 1/2; c and d once, λ = 1. p_m(t) = 1/2, q(t) = 1/2.

    Round 1 from θ(1) = (0, 0):
        client 0: (a's (−1, 0) + b's (0, −2))/2 = (−1/2, −1), so θ_0 = (1/4, 1/2)
        client 1: c's residual is 0, so θ_1 = (0, 0);          θ(2) = (1/8, 1/4)
    Round 2:
        client 0: a's residual −7/8, b's −7/4, gradient (−7/16, −7/8), move (7/32, 7/16)
        client 1: d's residual 2/8 − 2 = −7/4, gradient (−7/2, 0), move (7/4, 0)
        θ(3) = (1/8 + (7/32 + 7/4)/2, 1/4 + 7/32) = (71/64, 15/32)
    θ̄ = (θ(1) + θ(2))/2 = (1/16, 1/8): the start counts, the last iterate does not.
    """
    ends(run(two_clients(), engine=engine, workers=workers), (71 / 64, 15 / 32), (1 / 16, 1 / 8))


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("engine", STEPS)
def test_two_local_steps_with_the_whole_memory(engine, workers):
    """Round 1: client 0 goes to (1/4, 1/2), then residuals −3/4, −3/2, gradient (−3/8, −3/4):
        (7/16, 7/8). Client 1 stays at (0, 0).                                   θ(2) = (7/32, 7/16)
    Round 2: client 0: residuals −25/32, −25/16: (53/128, 53/64); residuals −75/128, −75/64:
        (287/512, 287/256). Client 1: residual 7/16 − 2 = −25/16: (57/32, 7/16); residual +25/16:
        back to (7/32, 7/16). θ(3) = (7/32, 7/16) + (175/512, 175/256)/2 = (399/1024, 399/512)
    """
    result = run(two_clients(), engine=engine, workers=workers, local_steps=2)
    ends(result, (399 / 1024, 399 / 512), (7 / 64, 7 / 32))


@pytest.mark.parametrize("engine", ONE_STEP)
@pytest.mark.parametrize("seed", range(6))
def test_a_batch_of_one(engine, seed):
    """K = 1: client 0 draws a or b, with coefficient 2 · 1/2 = 1.

    One round from (0, 0), both clients with share 1/2: a moves client 0 by (1/2, 0), b by (0, 1),
    client 1 stays. So θ(2) = (1/4, 0) or (0, 1/2), whose mean is the whole memory's (1/8, 1/4).
    """
    result = run(two_clients(), rounds=2, engine=engine, batch_size=1, seed=seed)
    first = 2 * result.average.weight.detach()[0].numpy()  # θ̄ = θ(2)/2
    drawn = int(2 * float(uniform(seed, Purpose.BATCH, 1, 0, 0, 0)))
    np.testing.assert_allclose(first, [(1 / 4, 0), (0, 1 / 2)][drawn], atol=1e-15)


def test_both_batches_of_one_are_seen():
    drawn = {int(2 * float(uniform(seed, Purpose.BATCH, 1, 0, 0, 0))) for seed in range(6)}
    assert drawn == {0, 1}


@pytest.mark.parametrize("engine", ONE_STEP)
@pytest.mark.parametrize("seed", range(3))
def test_a_batch_of_one_with_unequal_weights(engine, seed):
    """λ = (1, 3) for a, b and 4 for c: p_m = 1/2; coefficients 2 · 1/4 and 2 · 3/4.

    a: gradient (−1, 0)/2, move (1/4, 0), θ(2) = (1/8, 0). b: gradient (0, −2)·3/2, move (0, 3/2),
    θ(2) = (0, 3/4). Their mean (1/16, 3/8) is that of the whole memory: −η p_0 (−1/4, −3/2) =
    (1/16, 3/8).
    """
    result = run(
        [pair(A, B), pair(C)],
        rounds=1,
        engine=engine,
        batch_size=1,
        seed=seed,
        strategy=hw.Given([1, 3, 4]),
    )
    drawn = int(2 * float(uniform(seed, Purpose.BATCH, 1, 0, 0, 0)))
    ends(result, [(1 / 8, 0), (0, 3 / 4)][drawn], (0, 0))


@pytest.mark.parametrize("engine", STEPS)
@pytest.mark.parametrize("seed", range(4))
def test_two_steps_with_a_batch_of_one(engine, seed):
    """Client 0 alone, E = 2, K = 1, from (0, 0): every step draws anew, and halves the residual it
    sees.

    a twice: (1/2, 0) then residual −1/2, (3/4, 0). b twice: (0, 1) then (0, 3/2). One of each:
    (1/2, 1).
    """
    result = run([pair(A, B)], rounds=1, engine=engine, local_steps=2, batch_size=1, seed=seed)
    drawn = [int(2 * float(uniform(seed, Purpose.BATCH, 1, 0, step, 0))) for step in range(2)]
    ends(result, {0: (3 / 4, 0), 1: (1 / 2, 1), 2: (0, 3 / 2)}[sum(drawn)], (0, 0))


@pytest.mark.parametrize("engine", ONE_STEP)
def test_rounds_count_by_their_weights_in_the_average(engine):
    """λ(t) = (1, 1), then (1, 5) for a and c, held by two clients: q = (1/4, 3/4), p_1(t) = 1/2,
    5/6.

    From θ(1) = (1, −1): a's residual 0; c's residual 0. So nothing moves, θ̄ = θ(1) = (1, −1).
    From θ(1) = (3, −1): a's residual 2, move (−1, 0); c's residual 2, move (−1, −1). θ(2) = (2,
    −3/2). Round 2: a's residual 1, move (−1/2, 0); c's residual 1/2, move (−1/4, −1/4).
        θ(3) = (2, −3/2) + (−1/12 − 5/24, −5/24) = (41/24, −41/24)
    θ̄ = θ(1)/4 + 3·θ(2)/4 = (9/4, −11/8).
    """
    clients = [pair(A), pair(C)]
    weights = hw.Given(lambda t: [1.0, {1: 1.0, 2: 5.0}[t]])
    ends(run(clients, (1.0, -1.0), engine=engine, strategy=weights), (1, -1), (1, -1))
    ends(
        run(clients, (3.0, -1.0), engine=engine, strategy=weights),
        (41 / 24, -41 / 24),
        (9 / 4, -11 / 8),
    )


@pytest.mark.parametrize("engine", ONE_STEP)
def test_projection_on_a_box(engine):
    """The first golden run ends at (71/64, 15/32); the box cuts the first coordinate."""
    result = run(two_clients(), engine=engine, projection=hw.Box(-1, 1))
    ends(result, (1, 15 / 32), (1 / 16, 1 / 8))


@pytest.mark.parametrize("engine", ONE_STEP)
def test_projection_on_a_ball_happens_every_round(engine):
    """One sample ((3, 4), 1), η = 1. (0, 0): residual −1, to (3, 4), projected to (3/5, 4/5).
    There θ·x = 5, residual 4, to (3/5 − 12, 4/5 − 16) = −19·(3/5, 4/5), projected to −(3/5,
    4/5)."""
    result = run([pair(((3, 4), 1))], engine=engine, projection=hw.Ball(1.0), learning_rate=1.0)
    ends(result, (-3 / 5, -4 / 5), (3 / 10, 4 / 10))
    assert [r.move for r in result.history] == pytest.approx([5, 20])  # before the projection


@pytest.mark.parametrize("engine", ONE_STEP)
def test_a_client_whose_memory_is_empty_takes_no_part(engine):
    """Client 1 is there in round 2 only, λ = 1: shares (1), then (2/3, 1/3).

    Round 1: client 0 alone, to (1/4, 1/2). Round 2: residuals −3/4, −3/2, move (3/16, 3/8); c's
    residual 3/4, move (−3/8, −3/8). θ(3) = (1/4 + 1/8 − 1/8, 1/2 + 1/4 − 1/8) = (1/4, 5/8). q =
    (2/5, 3/5), θ̄ = 3/5·(1/4, 1/2).
    """
    clients = [pair(A, B), pair(C, arrivals=hw.Window(2, 2))]
    result = run(clients, engine=engine, strategy=hw.ByMemory())
    ends(result, (1 / 4, 5 / 8), (3 / 20, 3 / 10))
    assert [r.clients for r in result.history] == [1, 2]


@pytest.mark.parametrize("seed", range(4))
def test_one_client_a_round_carries_the_share_of_the_other(seed):
    """Both have share 1/2; whoever is chosen counts 1: θ(2) = (1/4, 1/2) or (0, 0), on average
    (1/8, 1/4)."""
    result = run(two_clients(), rounds=2, participation=1, seed=seed)
    second = 2 * result.average.weight.detach()[0].numpy()
    order = np.argsort(uniform(seed, Purpose.PARTICIPATION, 1, np.arange(2)))
    chosen = order[0] if float(uniform(seed, Purpose.PARTICIPATION, 1)) >= 1 / 2 else order[1]
    np.testing.assert_allclose(second, [(1 / 4, 1 / 2), (0, 0)][chosen], atol=1e-15)


def test_the_rate_of_each_round_is_used():
    """Client 0 alone with a: residual r shrinks by 1 − η: −1, −1/2, −3/8 with η = 1/2, 1/4."""
    result = run([pair(A)], learning_rate=lambda t: 1 / 2**t)
    ends(result, (1 - 3 / 8, 0), (1 / 4, 0))
