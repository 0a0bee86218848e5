"""``device=``: the same run on every device that this machine has, and nothing left behind.

A machine with only a CPU cannot run the others. What can be checked everywhere is that every
engine's tensors end up in one place: on PyTorch's meta device, which computes nothing, an operation
between it and the CPU fails as between any two devices.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import headwater as hw
from headwater.learning.engines.choice import KINDS
from headwater.learning.federation import Federation
from headwater.learning.problem import Problem
from headwater.ledger.ledger import Ledger
from headwater.ledger.orders import LocalWork

DEVICES = ["cpu"]
if torch.cuda.is_available():
    DEVICES.append("cuda")
if torch.backends.mps.is_available():
    DEVICES.append("mps")


def clients() -> list[hw.Client]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)).astype(np.float32)
    y = (x @ [1.0, -2.0, 0.5] > 0).astype(int)
    return [
        hw.Client(x[:10], y[:10], test=(x[50:], y[50:])),
        hw.Client(x[10:40], y[10:40], hw.Constant(3), hw.Fifo(5), test=(x[40:], y[40:])),
    ]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("engine", [kind for kind in KINDS if kind != "fused"])
def test_a_run_is_the_same_on_every_device(device: str, engine: str) -> None:
    settings = {"rounds": 6, "local_steps": 2, "prequential": True, "workers": 0}
    usual = hw.simulate(network(), clients(), engine="loop", **settings)
    there = hw.simulate(network(), clients(), engine=engine, device=device, **settings)
    assert there.state.parameters.device.type == device
    torch.testing.assert_close(
        there.state.parameters.cpu(), usual.state.parameters, rtol=1e-4, atol=1e-5
    )
    assert there.prequential["loss"] == pytest.approx(usual.prequential["loss"], rel=1e-4)
    part = Federation.of(clients()).test
    assert part is not None
    loss = hw.evaluate(there.model, part, device=device).mean("loss")
    assert loss == pytest.approx(usual.history[-1].loss, rel=1e-4)


def test_two_devices_do_not_mix_on_the_meta_device_either() -> None:
    """The premise of the next test."""
    with pytest.raises(RuntimeError, match=r"device"):
        torch.ones(3, device="meta") * torch.ones(3)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("rows", [False, True])
def test_all_that_an_engine_needs_is_where_the_samples_are(kind: str, rows: bool) -> None:
    federation = Federation.of(clients())
    steps = 1 if kind == "fused" else 2
    work = LocalWork(steps, 3, None, 0)
    orders = work.orders(Ledger.weigh(federation.holdings(6, 0), hw.Uniform()).round(4))
    here = Problem.of(network(), federation.train)
    meta = torch.device("meta")
    there = Problem(
        network().to(meta),
        here.x.to(meta),
        here.y.to(meta),
        torch.arange(len(here.x), device=meta) if rows else None,
    )
    there.__dict__["draws"] = False  # which is found out on the CPU, from what meta has not
    moved = KINDS[kind](there).moves(there.initial(), orders, 0.1)
    assert moved.device == meta
    assert moved.shape == here.initial().shape


@pytest.mark.parametrize("wrong", ["cudda", "meta", 3.5, "cuda:99"])
def test_a_device_that_is_not_there_is_named(wrong: object) -> None:
    with pytest.raises(hw.InputError, match=rf"device: 'cpu', 'cuda'.*got {wrong!r}"):
        hw.simulate(network(), clients(), rounds=2, device=wrong)  # type: ignore[arg-type]
