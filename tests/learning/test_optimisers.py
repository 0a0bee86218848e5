"""Local and server optimisers: against PyTorch's own, against the papers' formulas, in engines."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import headwater as hw

RATE = 0.05


def streams():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    y = (x @ [1.0, -2.0, 0.5] > 0).astype(int)
    return [hw.Client(x[:10], y[:10]), hw.Client(x[10:], y[10:], hw.Constant(3), hw.Fifo(5))]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def run(clients=None, **settings):
    settings = {"rounds": 4, "local_steps": 3, "learning_rate": RATE, "workers": 0, **settings}
    return hw.simulate(network(), clients or streams(), **settings)


def vector(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def by_torch(optimiser, steps):
    """PyTorch's own optimiser on one client's whole memory."""
    model = network()
    x, y = (t[:10] for t in streams()[0].tensors)
    steps_of = optimiser(model.parameters())
    for _ in range(steps):
        steps_of.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        steps_of.step()
    return vector(model)


LOCAL = {
    "momentum": (
        hw.Momentum(0.8),
        lambda p: torch.optim.SGD(p, RATE, momentum=0.8),
    ),
    "momentum and weight decay": (
        [hw.WeightDecay(0.1), hw.Momentum(0.8)],
        lambda p: torch.optim.SGD(p, RATE, momentum=0.8, weight_decay=0.1),
    ),
    "adam": (
        hw.Adam(0.8, 0.95, 1e-6),
        lambda p: torch.optim.Adam(p, RATE, betas=(0.8, 0.95), eps=1e-6),
    ),
    "adam with weight decay": (
        [hw.WeightDecay(0.1), hw.Adam()],
        lambda p: torch.optim.Adam(p, RATE, weight_decay=0.1),
    ),
}


@pytest.mark.parametrize("what", LOCAL)
@pytest.mark.parametrize("engine", ["loop", "sequential"])
def test_one_client_and_one_round_are_pytorchs_own_optimiser(what, engine):
    local, optimiser = LOCAL[what]
    end = run(streams()[:1], rounds=1, local_steps=6, local=local, engine=engine).state.parameters
    torch.testing.assert_close(end, by_torch(optimiser, 6), rtol=1e-10, atol=1e-12)


PIECES = {
    "momentum": hw.Momentum(),
    "decay": hw.WeightDecay(0.1),
    "proximal": hw.Proximal(0.5),
    "adam": hw.Adam(),
    "all": [hw.WeightDecay(0.01), hw.Proximal(0.1), hw.Momentum(0.5)],
}


@pytest.mark.parametrize("what", PIECES)
@pytest.mark.parametrize("workers", [0, 2])
def test_engines_agree_and_the_pieces_matter(what, workers):
    settings = {"local": PIECES[what], "batch_size": 4}
    loop = run(engine="loop", **settings).state.parameters
    chosen = run(workers=workers, **settings).state.parameters
    torch.testing.assert_close(chosen, loop, rtol=1e-9, atol=1e-11)
    assert (loop - run(batch_size=4).state.parameters).abs().max() > 1e-5


def test_the_proximal_term_pulls_to_where_the_round_began():
    """One parameter, gradient 1 (a loss that is the output), μ = 1/2, η = 1, from 0:
    −1, then gradient 1 + (−1 − 0)/2 = 1/2: −3/2; then 1 − 3/4 = 1/4: −7/4."""

    class Number(nn.Module):
        def __init__(self):
            super().__init__()
            self.value = nn.Parameter(torch.zeros(1, dtype=torch.float64))

        def forward(self, x):
            return self.value.expand(len(x))

    found = hw.simulate(
        Number(),
        [hw.Client(np.zeros((1, 1)), np.zeros(1))],
        rounds=1,
        local_steps=3,
        learning_rate=1.0,
        loss=lambda output, target: output + 0 * target,
        local=hw.Proximal(0.5),
    )
    assert found.state.parameters.item() == -1.75


@pytest.mark.parametrize("engine", ["fused", "lockstep", "batched"])
def test_engines_that_take_plain_steps_refuse_local_optimisers(engine):
    with pytest.raises(hw.InputError, match=rf"engine '{engine}'.*local=.*'sequential'"):
        run(local=hw.Momentum(), engine=engine, local_steps=1)


def server_by_hand(update, rounds=4):
    """The clients' moves from wherever the server is, put together by a formula of the paper."""
    theta, memory = vector(network()), None
    for t in range(1, rounds + 1):
        ledger = hw.Ledger.of(
            [10, 30], [hw.Once(), hw.Constant(3)], [hw.Keep(), hw.Fifo(5)], hw.ByMemory(), rounds
        )
        held = ledger.round(t)
        delta = torch.zeros_like(theta)
        x, y = (torch.cat([c.tensors[k] for c in streams()]) for k in (0, 1))
        for k, share in enumerate(held.shares):
            mine = held.samples[held.offsets[k] : held.offsets[k + 1]]
            local = network()
            nn.utils.vector_to_parameters(theta.clone(), local.parameters())
            plain = torch.optim.SGD(local.parameters(), RATE)
            for _ in range(3):
                plain.zero_grad()
                nn.functional.cross_entropy(local(x[mine]), y[mine]).backward()
                plain.step()
            delta += share * (vector(local) - theta)
        theta, memory = update(theta, delta, memory)
    return theta


def fed_avg_m(theta, delta, memory):
    """v = β v + Δ, θ = θ + η v (Hsu, Qi, Brown)."""
    velocity = 0.9 * (torch.zeros_like(theta) if memory is None else memory) + delta
    return theta + 0.5 * velocity, velocity


def fed_adam(theta, delta, memory):
    """Reddi et al., Algorithm 2."""
    m, v = memory or (torch.zeros_like(theta), torch.full_like(theta, 1e-3**2))
    m = 0.9 * m + 0.1 * delta
    v = 0.99 * v + 0.01 * delta**2
    return theta + 0.02 * m / (v.sqrt() + 1e-3), (m, v)


def fed_yogi(theta, delta, memory):
    """Reddi et al., Algorithm 2."""
    m, v = memory or (torch.zeros_like(theta), torch.full_like(theta, 1e-3**2))
    m = 0.9 * m + 0.1 * delta
    v = v - 0.01 * delta**2 * torch.sign(v - delta**2)
    return theta + 0.02 * m / (v.sqrt() + 1e-3), (m, v)


SERVERS = {
    "FedAvgM": (hw.Momentum(0.9), 0.5, fed_avg_m),
    "FedAdam": (hw.FedAdam(), 0.02, fed_adam),
    "FedYogi": (hw.FedYogi(), 0.02, fed_yogi),
}


@pytest.mark.parametrize("what", SERVERS)
@pytest.mark.parametrize("engine", ["loop", None])
def test_server_optimisers_follow_the_papers_formulas(what, engine):
    piece, rate, formula = SERVERS[what]
    found = run(strategy=hw.ByMemory(), server=piece, server_rate=rate, engine=engine)
    torch.testing.assert_close(
        found.state.parameters, server_by_hand(formula), rtol=1e-8, atol=1e-10
    )


def test_a_round_records_how_far_the_model_went_by_the_servers_step():
    after = []

    class Look(hw.Callback):
        def after_round(self, moment):
            after.append(vector(moment.model))

    found = run(server=hw.Momentum(0.9), server_rate=0.5, callbacks=[Look()])
    before = [vector(network()), *after[:-1]]
    went = [float((b - a).norm()) for a, b in zip(before, after, strict=True)]
    assert [record.move for record in found.history] == pytest.approx(went)


def test_a_run_with_memory_goes_on_bit_for_bit(tmp_path):
    settings = {"rounds": 6, "server": hw.FedAdam(), "server_rate": 0.02, "local": hw.Adam()}
    straight = run(**settings)

    def stop(record):
        if record.round == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(**settings, checkpoint=tmp_path, progress=stop)
    with pytest.raises(hw.InputError, match="other settings: the optimisers"):
        run(**{**settings, "server": hw.FedYogi()}, checkpoint=tmp_path)
    again = run(**settings, checkpoint=tmp_path)
    assert torch.equal(again.state.parameters, straight.state.parameters)
    assert all(map(torch.equal, again.state.memory, straight.state.memory))


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (lambda: hw.Momentum(1.0), r"Momentum\(beta\).*below 1; got 1\.0"),
        (lambda: hw.Momentum("0.9"), r"Momentum\(beta\).*got '0\.9'"),
        (lambda: hw.Proximal(-1), r"Proximal\(strength\).*got -1"),
        (lambda: hw.FedYogi(tau=0), r"FedYogi\(tau\).*got 0"),
        (lambda: run(local=hw.Momentum), r"local: pieces such as"),
        (lambda: run(local="adam"), r"local: pieces such as"),
        (lambda: run(server=3), r"server: pieces such as.*got 3"),
        (lambda: run(server_rate=0), r"server_rate.*got 0"),
    ],
)
def test_mistakes_are_named(mistake, words):
    with pytest.raises(hw.InputError, match=words):
        mistake()
