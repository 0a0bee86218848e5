"""FEMNIST as the paper uses it: a client is a writer, and a fresh writer is there in a single
round.

Where the paper is silent: a fifth of every writer's training samples, pooled, is for validation;
the test samples are LEAF's own tenth of each writer; pixels are normalised with their mean and
deviation; T = 150, E = 5, K = 16.
There must be a fresh writer in every round, so T is at most the number of fresh writers: 150 of 300
with half of them historical.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwater.experiments.data import load_femnist
from headwater.experiments.data.femnist import normalise
from headwater.experiments.tasks.models import FemnistNet
from headwater.experiments.tasks.natural import Natural, NaturalTask, Owned
from headwater.experiments.tasks.task import Defaults
from headwater.learning.stored import Stored


@dataclass(frozen=True)
class FemnistTask(NaturalTask):
    """Handwritten characters by writer."""

    name: ClassVar[str] = "femnist"
    defaults: ClassVar[Defaults] = Defaults(rounds=150, local_steps=5, batch_size=16)
    stay: ClassVar[int] = 1

    @cached_property
    def data(self) -> Natural:
        """The writers who have training and test samples."""
        raw = load_femnist(self.data_dir)
        return Natural.of(
            Owned(raw.images, raw.labels.astype(np.int64), raw.client),
            Owned(raw.test_images, raw.test_labels.astype(np.int64), raw.test_client),
            raw.complete,
        )

    def features(self, x: NDArray[np.uint8]) -> Stored:
        """The bytes of the mapped file, scaled where they are looked at."""
        return Stored(torch.from_numpy(x), _scaled)

    def model(self, seed: int) -> nn.Module:
        """Two dense layers, 867,390 parameters."""
        return FemnistNet(seed)


def _scaled(images: Tensor) -> Tensor:
    return torch.from_numpy(normalise(images.numpy()))
