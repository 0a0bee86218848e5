"""Small models of many kinds, each with a few samples: what a user may bring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from headwater.experiments.tasks.models import Logistic
from headwater.learning.problem import Problem

SAMPLES, CLASSES = 24, 4


class SharedTwice(nn.Module):
    """One linear layer used twice in a pass."""

    def __init__(self):
        super().__init__()
        self.inside, self.again, self.out = nn.Linear(5, 6), nn.Linear(6, 6), nn.Linear(6, CLASSES)

    def forward(self, x):
        return self.out(torch.tanh(self.again(torch.tanh(self.again(torch.tanh(self.inside(x)))))))


class TiedLayers(nn.Module):
    """Two layers with one weight, neither of them the first."""

    def __init__(self):
        super().__init__()
        self.inside, self.one, self.two = nn.Linear(5, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.out = nn.Linear(6, CLASSES)
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.out(torch.tanh(self.two(torch.tanh(self.one(torch.tanh(self.inside(x)))))))


class TiedTransposed(nn.Module):
    """A weight used by its layer and, transposed, by a function."""

    def __init__(self):
        super().__init__()
        self.encode, self.out = nn.Linear(5, 6), nn.Linear(5, CLASSES)

    def forward(self, x):
        back = functional.linear(torch.tanh(self.encode(x)), self.encode.weight.t())
        return self.out(torch.tanh(back))


class TiedEmbedding(nn.Module):
    """A language model's classic: the embedding is the last layer's weight."""

    def __init__(self):
        super().__init__()
        self.embedding, self.mix, self.out = nn.Embedding(7, 5), nn.Linear(5, 5), nn.Linear(5, 7)
        self.out.weight = self.embedding.weight

    def forward(self, tokens):
        return self.out(torch.tanh(self.mix(self.embedding(tokens))))


class Recurrent(nn.Module):
    """Embedding, two recurrent layers, a distribution at every place."""

    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(7, 4), nn.Linear(6, 7)
        self.inside = nn.RNN(4, 6, num_layers=2, batch_first=True)

    def forward(self, tokens):
        return self.out(self.inside(self.embedding(tokens))[0])


class LastStates(nn.Module):
    """Time comes first, no biases, and what counts are the last states of both layers."""

    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(7, 4), nn.Linear(12, CLASSES)
        self.inside = nn.RNN(4, 6, num_layers=2, bias=False)

    def forward(self, tokens):
        last = self.inside(self.embedding(tokens).transpose(0, 1))[1]
        return self.out(last.transpose(0, 1).flatten(1))


class OtherRecurrent(nn.Module):
    """Recurrent layers of other kinds, and one that is given its first state."""

    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(7, 4), nn.Linear(16, 7)
        self.rectified = nn.RNN(4, 6, nonlinearity="relu", batch_first=True)
        self.both_ways = nn.RNN(6, 8, bidirectional=True, batch_first=True)
        self.started = nn.RNN(16, 16, batch_first=True)

    def forward(self, tokens):
        states = self.both_ways(self.rectified(self.embedding(tokens))[0])[0]
        return self.out(
            self.started(input=states, hx=torch.ones(1, len(tokens), 16, dtype=states.dtype))[0]
        )


class Branching(nn.Module):
    """Goes by the values it sees, which cannot be done for many clients at once."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(5, CLASSES), nn.Linear(5, CLASSES)

    def forward(self, x):
        out = self.one(x)
        return out + torch.tanh(self.two(x)) if bool(out.abs().sum() > 0) else out


class Unused(nn.Module):
    """A layer that never works."""

    def __init__(self):
        super().__init__()
        self.idle, self.out = nn.Linear(3, 3), nn.Linear(5, CLASSES)

    def forward(self, x):
        return self.out(x)


class Functional(nn.Module):
    """Parameters of its own, no layers."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(5))
        self.matrix = nn.Parameter(torch.randn(5, CLASSES) / 3)

    def forward(self, x):
        return (x * self.scale) @ self.matrix


def network():
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(inplace=True), nn.Linear(8, CLASSES))


def normalised():
    return nn.Sequential(
        nn.Linear(5, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, CLASSES, bias=False)
    )


def convolution():
    image = nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.GroupNorm(3, 3)
    )
    return nn.Sequential(image, nn.Flatten(), nn.Linear(3 * 3 * 3, CLASSES))


def frozen_layer():
    model = network()
    model[0].requires_grad_(False)
    return model


def frozen_bias():
    model = network()
    model[0].bias.requires_grad_(False)
    model[2].weight.requires_grad_(False)
    return model


def features():
    return torch.randn(SAMPLES, 5, dtype=torch.float64)


def images():
    return torch.randn(SAMPLES, 2, 6, 6, dtype=torch.float64)


def laid_channels_last():
    return images().contiguous(memory_format=torch.channels_last)


def tokens():
    return torch.randint(0, 7, (SAMPLES, 4))


def classes():
    return torch.randint(0, CLASSES, (SAMPLES,))


def coin():
    return torch.randint(0, 2, (SAMPLES,))


def next_tokens():
    labels = torch.randint(0, 7, (SAMPLES, 4))
    labels[::3, -1] = -1  # padding
    return labels


@dataclass(frozen=True)
class Kind:
    """A model and what it learns from."""

    model: Callable[[], nn.Module]
    x: Callable[[], torch.Tensor] = features
    y: Callable[[], torch.Tensor] = classes
    batchable: bool = True  # can torch.func.vmap run it?

    def problem(self, dtype=torch.float64, seed=0):
        torch.manual_seed(seed)
        x, y = self.x(), self.y()
        x = x.to(dtype) if x.is_floating_point() else x
        return Problem(self.model().to(dtype), x, y, seed=seed)


KINDS = {
    "linear": Kind(lambda: nn.Linear(5, CLASSES)),
    "linear without bias": Kind(lambda: nn.Linear(5, CLASSES, bias=False)),
    "one logit": Kind(lambda: nn.Linear(5, 1), y=coin),
    "logistic": Kind(lambda: Logistic(5), y=coin),
    "network": Kind(network),
    "normalised": Kind(normalised),
    "layer used twice": Kind(SharedTwice),
    "tied layers": Kind(TiedLayers),
    "tied transposed": Kind(TiedTransposed),
    "tied embedding": Kind(TiedEmbedding, tokens, next_tokens),
    "convolution": Kind(convolution, images),
    "channels last": Kind(convolution, laid_channels_last),
    "recurrent": Kind(Recurrent, tokens, next_tokens),
    "last states": Kind(LastStates, tokens),
    "other recurrent": Kind(OtherRecurrent, tokens, next_tokens),
    "linear on sequences": Kind(
        lambda: nn.Sequential(nn.Embedding(7, 5), nn.Linear(5, 7)), tokens, next_tokens
    ),
    "frozen layer": Kind(frozen_layer),
    "frozen bias": Kind(frozen_bias),
    "unused layer": Kind(Unused),
    "no layers": Kind(Functional),
    "branching": Kind(Branching, batchable=False),
}
