"""``python -m benchmarks.studies.small_networks``: which small models step quicker together.

For models with more than linear layers there are two engines: ``sequential``, one client after the
other, and ``batched``, all at once by ``torch.func.vmap``. A round of each, in turns, in one
thread; the ratio decides up to how many parameters ``engines/choice.py`` takes the second.
"""

import argparse
from collections.abc import Callable
from functools import partial

import torch
from torch import nn

import headwater as hw
from benchmarks.harness import machine
from benchmarks.harness.alternate import alternate
from headwater.learning.engines import Batched, Sequential
from headwater.learning.problem import Problem
from headwater.ledger.orders import LocalWork, Orders

FEATURES, CLASSES, SAMPLES, STEPS = 20, 6, 40, 5


def normalised(hidden: int) -> nn.Module:
    """One hidden layer with layer normalisation."""
    return nn.Sequential(
        nn.Linear(FEATURES, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Linear(hidden, CLASSES)
    )


def convolution(channels: int) -> nn.Module:
    """A convolution over a short signal, as of a sensor."""
    return nn.Sequential(
        nn.Unflatten(1, (1, FEATURES)),
        nn.Conv1d(1, channels, 5),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(4),
        nn.Flatten(),
        nn.Linear(4 * channels, CLASSES),
    )


MODELS: dict[str, Callable[[], nn.Module]] = {
    **{
        f"normalised, {hidden} hidden": partial(normalised, hidden) for hidden in (16, 64, 250, 600)
    },
    **{f"convolution, {channels} channels": partial(convolution, channels) for channels in (8, 64)},
}


def problem_of(model: nn.Module, clients: int) -> Problem:
    """Random samples; speed does not depend on their values."""
    rows = clients * SAMPLES
    return Problem(model, torch.randn(rows, FEATURES), torch.randint(0, CLASSES, (rows,)))


def orders_of(clients: int, batch: int) -> Orders:
    """One round of all clients."""
    counts = [SAMPLES] * clients
    ledger = hw.Ledger.of(counts, hw.Once(), hw.Keep(), hw.Uniform(), rounds=1)
    return LocalWork(STEPS, batch).orders(ledger.round(1))


def compare(problem: Problem, orders: Orders, turns: int) -> float:
    """Seconds of a round one client after the other, over those of all at once."""
    engines = {"together": Batched(problem), "in turn": Sequential(problem)}
    start = problem.initial()
    rounds = {name: partial(e.moves, start, orders, 0.1) for name, e in engines.items()}
    found = alternate(rounds, turns)
    return found["in turn"] / found["together"]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5, help="rounds to time of each engine")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    cases = [(10, 8), (100, 8), (1000, 8), (100, 32)]
    titles = [f"{clients} clients, batch {batch}" for clients, batch in cases]
    print("| model | parameters |", " | ".join(titles), "|")
    print("|---|--:|", "--:|" * len(cases), sep="")
    for name, make in MODELS.items():
        model = make()
        ratios = [
            compare(problem_of(model, clients), orders_of(clients, batch), options.turns)
            for clients, batch in cases
        ]
        size = sum(p.numel() for p in model.parameters())
        print(f"| {name} | {size:,} |", " | ".join(f"{r:.2g}×" for r in ratios), "|", flush=True)
    command = f"python -m benchmarks.studies.small_networks --turns {options.turns}"
    print(f"\nMeasured by {machine.describe(command).words()}.")


if __name__ == "__main__":
    main()
