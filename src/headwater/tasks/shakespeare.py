"""Shakespeare as the paper uses it: a client is a role, and a fresh role is there for two rounds at most.

A sample is a sequence of 80 characters; accuracy is that of the next character, averaged within a sequence, then
within a role, then over roles. Where the paper is silent: a fifth of every role's training sequences, pooled, is
for validation; the last fifth of a role's text is its test part; T = 1,200, E = 1, K = 1. There must be a fresh
role in every round, so T is at most twice the number of fresh roles.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from headwater.data import load_shakespeare
from headwater.tasks.models import ShakespeareNet
from headwater.tasks.natural import Natural, both, natural_split
from headwater.tasks.task import Defaults, Split


@dataclass(frozen=True)
class ShakespeareTask:
    """The next character of a role's lines.

    Attributes:
        data_dir: where the folder ``shakespeare`` lies; None: the user's cache.
        validation: the fraction of every role's training sequences that the learning rate is chosen by.
    """

    data_dir: Path | None = None
    validation: float = 0.2

    name: ClassVar[str] = "shakespeare"
    defaults: ClassVar[Defaults] = Defaults(rounds=1200, batch_size=1, tests=6)

    @cached_property
    def data(self) -> Natural:
        """The roles that have training and test sequences."""
        raw = load_shakespeare(self.data_dir)
        train, test, number = both(raw.client, raw.test_client)
        return Natural(
            torch.from_numpy(raw.inputs[train]),
            torch.from_numpy(raw.targets[train].astype(np.int64)),
            number[raw.client[train]],
            torch.from_numpy(raw.test_inputs[test]),
            torch.from_numpy(raw.test_targets[test].astype(np.int64)),
            number[raw.test_client[test]],
            raw.complete,
        )

    @property
    def complete(self) -> bool:
        """Whether the files are the whole original."""
        return self.data.complete

    def split(self, historical: float, rounds: int, seed: int) -> Split:
        """A fraction of the roles is historical, the others come for two rounds each, the last ones for one."""
        return natural_split(self.data, historical, rounds, seed, stay=2, validation=self.validation)

    def model(self, seed: int) -> nn.Module:
        """Embedding, two recurrent layers, dense: 226,180 parameters."""
        return ShakespeareNet(seed)
