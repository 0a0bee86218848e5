"""What a learning task is: data dealt out to clients, a model, and settings that suit it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch import Tensor, nn

from headwater.experiments.tasks.partition import Partition
from headwater.learning.federation import Federation, Part
from headwater.learning.losses import Loss, cross_entropy
from headwater.learning.stored import Rows

PAPER_RATES = tuple(float(np.round(10.0**k, 6)) for k in (-3.5, -3, -2.5, -2, -1.5, -1))


@dataclass(frozen=True)
class Split:
    """A task dealt out with one seed.

    Attributes:
        tuning: Learns from the training samples and is tested on the validation samples.
        final: Learns from training and validation samples and is tested on the test samples.
    """

    tuning: Federation
    final: Federation


@dataclass(frozen=True)
class Defaults:
    """Settings of a task where the paper leaves them open; one for all strategies.

    Attributes:
        rounds: Communication rounds, T.
        local_steps: Gradient steps of a client in a round, E.
        batch_size: Samples of a gradient step, K; None stands for the whole memory.
        tests: How often a run is tested, evenly over its rounds.
        rates: Learning rates to choose from.
        loss: What is learned by; it decides how a run is measured, too.
    """

    rounds: int
    local_steps: int = 1
    batch_size: int | None = None
    tests: int = 20
    rates: Sequence[float] = PAPER_RATES
    loss: Loss = cross_entropy


class Task(Protocol):
    """A learning task. Write your own with these six, and ``headwater run module:Class`` runs it.

    What is a property here may be a plain attribute of a class.
    """

    @property
    def name(self) -> str:
        """What it is called in tables and folders."""
        ...

    @property
    def fraction_of(self) -> str:
        """What ``historical`` of `split` is a fraction of, as a word that can follow "of the"."""
        ...

    @property
    def defaults(self) -> Defaults:
        """Settings that suit it."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the data are the whole original, not a part of it."""
        ...

    def split(self, historical: float, rounds: int, seed: int) -> Split:
        """Deal the data out: a fraction is there before round 1, the rest arrives over the rounds.

        Args:
            historical: The fraction, of what ``fraction_of`` says.
            rounds: Over how many rounds the rest arrives, T.
            seed: Decides who gets what.
        """
        ...

    def model(self, seed: int) -> nn.Module:
        """A new model."""
        ...


def part(x: Rows, y: Tensor, partition: Partition) -> Part:
    """The clients' rows of features and labels."""
    return Part(x, y, partition.offsets, partition.rows)


def pooled(x: Rows, y: Tensor, partition: Partition) -> Part:
    """All clients' rows as one common test set."""
    return Part(x, y, np.array([0, len(partition.rows)]), partition.rows)
