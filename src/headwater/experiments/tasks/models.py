"""The tasks' models. Sizes d of the paper's are those of its appendix, which fixes the layers.

All start from PyTorch's default initialisation, drawn from a generator of the model's own: the same
seed gives the same weights whatever was drawn before, and the global generator is left as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """What is drawn inside depends on the seed alone, and changes nothing outside."""
    # Not torch.manual_seed, which would seed the accelerators, too, and they would not be set back.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


class Logistic(nn.Module):
    """Logistic regression for the synthetic task: 20 features and a bias, d = 21; one logit a
    sample.

    >>> Logistic()(torch.zeros(5, 20)).shape
    torch.Size([5])
    """

    def __init__(self, features: int = 20, seed: int = 0) -> None:
        super().__init__()
        with seeded(seed):
            self.linear = nn.Linear(features, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n,) of samples (n, features), for binary cross-entropy."""
        logits: Tensor = self.linear(x)
        return logits.squeeze(-1)


class CifarNet(nn.Module):
    """Two convolutions and two dense layers: d = 3,353,034 with 10 classes, 3,537,444 with 100.

    Maxima are taken before the ReLU: it is monotone, so the result is the same, at a quarter of the
        ReLUs.

    >>> CifarNet()(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(self, classes: int = 10, seed: int = 0) -> None:
        super().__init__()
        with seeded(seed):
            self.conv1 = nn.Conv2d(3, 32, 5)
            self.conv2 = nn.Conv2d(32, 64, 5)
            self.hidden = nn.Linear(64 * 5 * 5, 2048)
            self.output = nn.Linear(2048, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes) of images (n, 3, 32, 32)."""
        for convolution in (self.conv1, self.conv2):
            x = functional.relu(functional.max_pool2d(convolution(x), 2))
        x = functional.relu(self.hidden(x.flatten(1)))
        logits: Tensor = self.output(x)
        return logits


class FemnistNet(nn.Module):
    """Two dense layers, 784 → 1024 → 62: d = 867,390.

    >>> FemnistNet()(torch.zeros(2, 784)).shape
    torch.Size([2, 62])
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        with seeded(seed):
            self.hidden = nn.Linear(28 * 28, 1024)
            self.output = nn.Linear(1024, 62)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, 62) of images (n, 784) or (n, 28, 28)."""
        logits: Tensor = self.output(functional.relu(self.hidden(x.flatten(1))))
        return logits


class ShakespeareNet(nn.Module):
    """8-dimensional embedding of 100 characters, two layers of 256 plain recurrent units, dense: d
    = 226,180.

    The paper's text says LSTM; one of that shape would have 825,220 parameters.

    >>> ShakespeareNet()(torch.zeros(2, 80, dtype=torch.uint8)).shape
    torch.Size([2, 80, 100])
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        with seeded(seed):
            self.embedding = nn.Embedding(100, 8)
            self.recurrent = nn.RNN(8, 256, num_layers=2, batch_first=True)
            self.output = nn.Linear(256, 100)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, length, 100) of the next character at every position of texts (n, length) of
        any int type."""
        states, _ = self.recurrent(self.embedding(x.long()))
        logits: Tensor = self.output(states)
        return logits


class Dense(nn.Module):
    """One hidden layer of rectified units, for tables of numbers.

    >>> Dense(43, 64, 6)(torch.zeros(2, 43)).shape
    torch.Size([2, 6])
    """

    def __init__(self, features: int, hidden: int, outputs: int, seed: int = 0) -> None:
        super().__init__()
        with seeded(seed):
            self.hidden = nn.Linear(features, hidden)
            self.output = nn.Linear(hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs (n, outputs) of samples (n, features)."""
        outputs: Tensor = self.output(functional.relu(self.hidden(x)))
        return outputs
