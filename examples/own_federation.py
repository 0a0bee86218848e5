"""Your own federation: your model, your loss, your streams.

Six weather stations learn one model that tells the temperature at noon from eight readings of the
morning. Two have a small archive; the other four see two new mornings a round and have room for
four. Readings stay where they are. What is special to Headwater are the lines in ``stations`` and
``main``.

    python examples/own_federation.py
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import headwater as hw


class Forecast(nn.Module):
    """Any module will do."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, readings: torch.Tensor) -> torch.Tensor:
        return self.layers(readings)[:, 0]


def squared_error(forecast: torch.Tensor, noon: torch.Tensor) -> torch.Tensor:
    """Any loss will do that gives one number per sample."""
    return (forecast - noon) ** 2


def mornings(station: int, days: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Readings of a station and the temperatures at noon: every station has its climate, all follow
    one law."""
    random = np.random.default_rng([station, seed])
    readings = random.normal(0.1 * station - 0.25, 1.0, (days, 8))
    return readings, np.tanh(readings @ np.linspace(-0.25, 0.5, 8)) + 0.1 * random.normal(size=days)


def stations(rounds: int) -> list[hw.Client]:
    """A client: its samples in order of arrival, how they arrive, what it can keep, what it is
    tested on."""
    archives = [hw.Client(*mornings(k, 20), test=mornings(k, 50, seed=1)) for k in range(2)]
    return archives + [
        hw.Client(
            *mornings(k, 2 * rounds), hw.Constant(2), hw.Fifo(4), test=mornings(k, 50, seed=1)
        )
        for k in range(2, 6)
    ]


def main(rounds: int = 100) -> dict[str, float]:
    """Mean squared error of each strategy, averaged over the stations."""
    errors = {}
    for strategy in (hw.Historical(), hw.Fresh(), hw.Uniform()):
        torch.manual_seed(0)
        run = hw.simulate(
            Forecast(),
            stations(rounds),
            strategy,
            rounds,
            local_steps=2,
            learning_rate=0.2,
            loss=squared_error,
            test_every=rounds,
        )
        name, error = type(strategy).__name__, float(run.history[-1].loss)
        print(
            f"{name:10} error {error:.4f}, learned from {run.ledger.effective_samples:.0f} mornings"
        )
        errors[name] = error
    return errors


if __name__ == "__main__":
    main()
