"""The networks of the workloads, in PyTorch, and the loss of a mini-batch."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

Loss = Callable[[Tensor, Tensor], Tensor]


def logistic() -> nn.Module:
    """21 parameters: 20 features and a bias."""
    return nn.Linear(20, 1)


def digits() -> nn.Module:
    """867,390 parameters: the fully connected network for handwritten characters."""
    return nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 62))


def images() -> nn.Module:
    """3,353,034 parameters: the convolutional network for 32 by 32 colour images."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1600, 2048),
        nn.ReLU(),
        nn.Linear(2048, 10),
    )


class Characters(nn.Module):
    """226,180 parameters: two layers of a plain recurrent network that guess the character after a
    window."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 8)
        self.recurrent = nn.RNN(8, 256, num_layers=2, batch_first=True)
        self.head = nn.Linear(256, 100)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the 100 characters, from the state after the last one of the window."""
        states, _ = self.recurrent(self.embedding(x))
        scores: Tensor = self.head(states[:, -1])
        return scores


def binary_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Mean logistic loss of a batch; labels are 0 or 1."""
    return functional.binary_cross_entropy_with_logits(scores.squeeze(-1), labels.to(scores.dtype))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Loss]] = {
    "logistic": (logistic, binary_loss),
    "digits": (digits, functional.cross_entropy),
    "images": (images, functional.cross_entropy),
    "characters": (Characters, functional.cross_entropy),
}


def load(network: str, weights: list[Tensor]) -> tuple[nn.Module, Loss]:
    """The named network with these weights, and its loss."""
    build, loss = NETWORKS[network]
    model = build()
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), weights, strict=True):
            parameter.copy_(value)
    return model, loss
