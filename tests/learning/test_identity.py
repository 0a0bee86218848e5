"""A name for all that decides a result: equal for equal things, another for anything else."""

from __future__ import annotations

import copy
import functools
import subprocess
import sys
import threading
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import headwater as hw
from headwater.learning.identity import UnidentifiedError, digest

SCALE = 2.0


class Net(nn.Module):
    def __init__(self, rate=0.5, power=2):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.drop, self.power = nn.Linear(3, 2), nn.Dropout(rate), power
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("passing", torch.zeros(3), persistent=False)

    def forward(self, x):
        return self.drop(self.layer((x - self.mean) ** self.power))


def with_forward(forward):
    return type("Net", (Net,), {"forward": forward})()


def changed(change):
    net = Net()
    change(net)
    return net


def closing_over(value):
    return lambda output, target: value * (output - target)


def helper(x):
    return SCALE * x


def calls_the_helper(output, target):
    return helper(output - target)


@dataclass(frozen=True)
class Cube:
    side: float

    def __call__(self, parameters):
        return parameters.clamp(-self.side, self.side)


def big(dtype="<f8", last=0.0):
    values = np.arange(100_000, dtype=dtype).reshape(-1, 10)
    values[-1, -1] += last
    return values


# Two of each that look alike and are not.
DIFFERENT = {
    "a row deep inside": lambda: (big(), big(last=1.0)),
    "byte order": lambda: (big("<f8"), big(">f8")),
    "shape": lambda: (big(), big().reshape(-1, 5)),
    "a tensor's value": lambda: (torch.zeros(3), torch.tensor([0, 0, 1.0])),
    "a tensor's precision": lambda: (torch.zeros(3), torch.zeros(3).double()),
    "how words are cut": lambda: (["ab", "c"], ["a", "bc"]),
    "how lists nest": lambda: ([[1], 2], [[1, 2]]),
    "learning rates in the seventeenth digit": lambda: (0.1, np.nextafter(0.1, 1.0).item()),
    "dropout": lambda: (Net(), Net(rate=0.4)),
    "a plain attribute of a module": lambda: (Net(), Net(power=3)),
    "a buffer": lambda: (Net(), changed(lambda n: n.mean.add_(1))),
    "a buffer that is not stored": lambda: (Net(), changed(lambda n: n.passing.add_(1))),
    "the training flag of a part": lambda: (Net(), changed(lambda n: n.drop.eval())),
    "a frozen parameter": lambda: (Net(), changed(lambda n: n.layer.bias.requires_grad_(False))),
    "a hook": lambda: (Net(), changed(lambda n: n.register_forward_hook(helper))),
    "another forward": lambda: (
        with_forward(lambda self, x: self.layer(x)),
        with_forward(lambda self, x: self.layer(-x)),
    ),
    "what a loss closes over": lambda: (closing_over(1.0), closing_over(2.0)),
    "a constant in the code": lambda: (lambda o, t: 2 * o, lambda o, t: 3 * o),
    "a name in the code": lambda: (lambda o, t: o.sin(), lambda o, t: o.cos()),
    "a function within": lambda: (lambda o: lambda t: t + 1, lambda o: lambda t: t + 2),
    "a default": lambda: (functools.partial(helper, x=1), functools.partial(helper, x=2)),
    "a function of a library": lambda: (functional.mse_loss, functional.l1_loss),
    "a dataclass's field": lambda: (Cube(1.0), Cube(2.0)),
    "a generator's state": lambda: (np.random.default_rng(0), np.random.default_rng(1)),
    "a strategy": lambda: (hw.Share(0.2), hw.Share(0.3)),
    "items of a set": lambda: ({1, 2}, {1, 3}),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_different_things_have_different_names(what):
    one, other = DIFFERENT[what]()
    assert digest(one) != digest(other)


SAME = {
    "modules made alike": lambda: (Net(), Net()),
    "a module and its copy": lambda: (Net(), copy.deepcopy(Net())),
    "hooks registered at another time": lambda: (
        changed(lambda n: n.register_forward_hook(helper)),
        changed(lambda n: (Net().register_forward_hook(helper), n.register_forward_hook(helper))),
    ),
    "closures over equal values": lambda: (closing_over([1, 2]), closing_over([1, 2])),
    "the order of a set": lambda: ({1, 9, 17}, {17, 9, 1}),
    "images channels last": lambda: (
        torch.arange(48.0).view(2, 3, 2, 4),
        torch.arange(48.0).view(2, 3, 2, 4).contiguous(memory_format=torch.channels_last),
    ),
    "a slice and its copy": lambda: (big()[::2], big()[::2].copy()),
    "caches of a dataclass": lambda: (hw.Ledger.of(*LEDGER), used(hw.Ledger.of(*LEDGER))),
}
LEDGER = [2, 3], [hw.Once(), hw.Constant(1)], [hw.Keep(), hw.Fifo(1)], hw.Uniform(), 3


def used(ledger):
    assert ledger.importance.sum() == pytest.approx(1)
    return ledger


@pytest.mark.parametrize("what", SAME)
def test_equal_things_have_equal_names(what):
    one, other = SAME[what]()
    assert digest(one) == digest(other)


def test_the_globals_that_a_function_uses_belong_to_it(monkeypatch):
    before = digest(calls_the_helper)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert digest(calls_the_helper) != before


def test_things_that_refer_to_each_other_in_circles():
    one, other = [1], [1]
    one.append(one)
    other.append(other)
    assert digest(one) == digest(other)
    assert digest(one) != digest([1, [1, 2]])


def test_what_cannot_be_identified_is_named_and_refused_unless_a_word_stands_for_it():
    lock = threading.Lock()

    def loss(output, target):
        with lock:
            return output - target

    with pytest.raises(UnidentifiedError, match=r"lock: a _thread\.lock cannot be told"):
        digest(loss)
    assert digest(loss, unknown="1") == digest(loss, unknown="1")
    assert digest(loss, unknown="1") != digest(loss, unknown="2")


PROGRAM = """
import torch, headwater as hw
from headwater.learning.identity import digest
class Net(torch.nn.Module):
    width = 3
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = torch.nn.Linear(3, 2)
    def forward(self, x):
        return self.a(x)
net = Net()
net.register_forward_hook(lambda *_: None)
print(digest(net, lambda o, t: hw.cross_entropy(o, t) * Net.width, {"b", "a", "c"}, hw.Ball(2.0)))
"""


def test_the_name_is_the_same_in_every_process():
    """Hashes of words and ids of objects differ from process to process; names must not."""
    seen = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path), "OMP_NUM_THREADS": "1"},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1
    assert len(seen.pop().strip()) == 32
