"""Shakespeare as the paper uses it: a client is a role, and a fresh role is there for two rounds at
most.

A sample is a sequence of 80 characters; accuracy is that of the next character, averaged within a
sequence, then within a role, then over roles. Where the paper is silent: a fifth of every role's
training sequences, pooled, is for validation; the last fifth of a role's text is its test part; T =
1,200, E = 1, K = 1. There must be a fresh role in every round, so T is at most twice the number of
fresh roles. Plain recurrent layers explode at learning rates of 0.5 and above, and the largest of
the paper's grid, 0.1, learns slowly with E = 1; 0.3 lies between.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from torch import nn

from headwater.experiments.data import load_shakespeare
from headwater.experiments.tasks.models import ShakespeareNet
from headwater.experiments.tasks.natural import Natural, NaturalTask, Owned
from headwater.experiments.tasks.task import Defaults


@dataclass(frozen=True)
class ShakespeareTask(NaturalTask):
    """The next character of a role's lines."""

    name: ClassVar[str] = "shakespeare"
    defaults: ClassVar[Defaults] = Defaults(rounds=1200, batch_size=1, tests=6)
    stay: ClassVar[int] = 2

    @cached_property
    def data(self) -> Natural:
        """The roles that have training and test sequences."""
        raw = load_shakespeare(self.data_dir)
        return Natural.of(
            Owned(raw.inputs, raw.targets.astype(np.int64), raw.client),
            Owned(raw.test_inputs, raw.test_targets.astype(np.int64), raw.test_client),
            raw.complete,
        )

    def model(self, seed: int) -> nn.Module:
        """Embedding, two recurrent layers, dense: 226,180 parameters."""
        return ShakespeareNet(seed)
