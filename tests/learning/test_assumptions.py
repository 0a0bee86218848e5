"""Models and losses that break the assumptions are found before the first round, with a fix."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import headwater as hw

X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
Y = np.arange(12) % 2


def run(model, loss=hw.cross_entropy, x=X, y=Y, **settings):
    clients = [hw.Client(x[:6], y[:6]), hw.Client(x[6:], y[6:])]
    return hw.simulate(model, clients, rounds=2, loss=loss, **settings)


class Wrapped(nn.Module):
    """A linear layer with something done to its input or its output."""

    def __init__(self, before=lambda x: x, after=lambda x: x, outputs=2):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.before, self.after = nn.Linear(3, outputs), before, after

    def forward(self, x):
        return self.after(self.layer(self.before(x)))


class Counting(nn.Module):
    """Keeps a buffer of its own."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        if self.training:
            self.seen += len(x)
        return self.layer(x)


class Remembering(nn.Module):
    """Answers differ from call to call, without a draw and without a buffer."""

    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(3, 2), 0

    def forward(self, x):
        self.calls += 1
        return self.layer(x) * self.calls


def squares(output, target):
    return (output - target) ** 2


REFUSED = {
    "a forward that mixes samples": (
        r"model: .*depends on the other samples",
        lambda: run(Wrapped(before=lambda x: x - x.mean(0))),
    ),
    "a forward that mixes them and drops out": (
        r"model: .*depends on the other samples",
        lambda: run(nn.Sequential(Wrapped(before=lambda x: x / x.norm()), nn.Dropout(0.5))),
    ),
    "a loss that mixes samples": (
        r"loss: .*depends on the other samples",
        lambda: run(Wrapped(), lambda o, t: hw.cross_entropy(o, t) + o.mean()),
    ),
    "(n, 1) − (n,) broadcast, then averaged": (
        r"loss: .*squeeze\(-1\)",
        lambda: run(Wrapped(outputs=1), lambda o, t: squares(o, t).mean(1), y=Y + 0.5),
    ),
    "(n, 1) − (n,) broadcast": (
        r"loss: one number per sample",
        lambda: run(Wrapped(outputs=1), squares, y=Y + 0.5),
    ),
    "squeeze that takes the first dimension too": (
        r"squeeze\(-1\)",
        lambda: run(Wrapped(after=torch.squeeze, outputs=1), squares, y=Y + 0.5),
    ),
    "BatchNorm": (
        r"BatchNorm.*GroupNorm.*\.eval\(\)",
        lambda: run(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))),
    ),
    "BatchNorm without statistics": (
        r"BatchNorm.*GroupNorm",
        lambda: run(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2, track_running_stats=False))),
    ),
    "InstanceNorm with statistics": (
        r"buffer .*running_mean.*track_running_stats=False",
        lambda: run(
            nn.Sequential(
                nn.Unflatten(1, (1, 3)),
                nn.InstanceNorm1d(1, track_running_stats=True),
                nn.Flatten(),
                nn.Linear(3, 2),
            )
        ),
    ),
    "a buffer of one's own": (r"buffer seen", lambda: run(Counting())),
    "a memory of one's own": (r"another answer when asked again", lambda: run(Remembering())),
    "no gradient": (r"no gradient", lambda: run(Wrapped(after=torch.Tensor.detach))),
    "NaN in the parameters": (r"layer\.bias has NaN", lambda: run(with_nan())),
    "a lazy layer": (r"has no shape yet", lambda: run(nn.LazyLinear(2))),
    "features beyond float32": (
        r"Client\(x\): values up to 1e\+300.*model\.double",
        lambda: run(Wrapped(), x=X.astype(float) * 0 + 1e300),
    ),
    "features that overflow in the loss": (
        r"before the first round; features are up to .*: scale them",
        lambda: run(Wrapped(outputs=1), hw.squared_error, x=X * 1e30, y=Y + 0.5),
    ),
    "images of bytes": (
        r"model\(x\) fails.*uint8.*/ 255",
        lambda: run(nn.Linear(3, 2), x=(255 * np.abs(X) % 255).astype(np.uint8)),
    ),
    "whole numbers for a linear layer": (
        r"model\(x\) fails.*int64.*float32",
        lambda: run(nn.Linear(3, 2), x=X.astype(int)),
    ),
}


def with_nan():
    model = Wrapped()
    model.layer.bias.data[1] = torch.nan
    return model


@pytest.mark.parametrize("what", REFUSED)
def test_what_breaks_the_assumptions_is_refused_in_one_line(what):
    words, mistake = REFUSED[what]
    with pytest.raises(hw.InputError, match=words) as caught:
        mistake()
    assert "\n" not in str(caught.value)


ACCEPTED = {
    "dropout": lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2)),
    "dropout by a function": lambda: Wrapped(after=lambda x: functional.dropout(x, 0.5)),
    "GroupNorm": lambda: nn.Sequential(nn.Linear(3, 4), nn.GroupNorm(2, 4), nn.Linear(4, 2)),
    "InstanceNorm without statistics": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 3)), nn.InstanceNorm1d(1), nn.Flatten(), nn.Linear(3, 2)
    ),
    "a whole model in evaluation mode": lambda: nn.Sequential(
        nn.Linear(3, 2), nn.BatchNorm1d(2)
    ).eval(),
    "BatchNorm with frozen statistics": lambda: with_frozen_statistics(),
    "compiled": lambda: torch.compile(nn.Linear(3, 2)),
}


def with_frozen_statistics():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    model[1].running_mean += 0.5
    model[1].eval()
    return model


@pytest.mark.parametrize("what", ACCEPTED)
@pytest.mark.parametrize("steps", [1, 3])
def test_what_keeps_them_is_learned_and_the_users_model_stays_as_it_was(what, steps):
    model = ACCEPTED[what]()
    before = copy.deepcopy(model.state_dict())
    flags = [module.training for module in model.modules()]
    found = run(model, local_steps=steps, test=(X, Y), workers=0)
    assert found.history[-1].move > 0
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert [module.training for module in model.modules()] == flags


def test_frozen_statistics_stay_frozen_whatever_the_engine_and_the_tests():
    """Tests put the model in evaluation mode and back; the frozen layer must not wake up."""
    ends = []
    for engine, every in (("loop", 0), ("loop", 1), ("sequential", 1)):
        settings = {"local_steps": 2, "engine": engine, "test_every": every, "workers": 0}
        found = run(with_frozen_statistics(), test=(X, Y), **settings)
        assert not found.model[1].training
        torch.testing.assert_close(found.model[1].running_mean, torch.full((4,), 0.5))
        ends.append(found.state.parameters)
    assert torch.equal(ends[0], ends[1])
    torch.testing.assert_close(ends[0], ends[2])


@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode])
def test_a_call_where_gradients_are_off(around):
    """Clients, model and run all made within; it is as if they had been made outside."""

    def learn():
        torch.manual_seed(0)
        return run(nn.Linear(3, 2), local_steps=2, test=(X, Y)).state.parameters

    with around():
        within = learn()
    assert torch.equal(within, learn())


def test_a_compiled_model_learns_what_the_module_it_was_made_of_learns():
    torch.manual_seed(0)
    plain = nn.Linear(3, 2)
    ends = [run(model).state.parameters for model in (plain, torch.compile(plain))]
    assert torch.equal(*ends)
