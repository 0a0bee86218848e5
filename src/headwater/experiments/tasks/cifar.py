"""CIFAR-10 and CIFAR-100 as the paper deals them out: 25 historical clients and 25 with a stream.

The training set is split at random into a historical and a fresh group of N_hist and N − N_hist
samples. Each is dealt to 25 clients: CIFAR-10 label by label in shares from a symmetric Dirichlet
distribution with parameter 0.4, CIFAR-100 by two-stage Pachinko allocation over coarse and fine
labels (0.1 and 10). A fresh client gathers b_m = N_m / T samples a round and keeps as many.

Where the paper is silent: a fifth of every client's samples, pooled, is for validation; all clients
are tested on the official test set; T = 1,600, E = 1, K = 8, so that about one new sample a round
comes to each fresh client; images are normalised with the channels' mean and deviation over the
official training set, no augmentation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from headwater.experiments.data import load_cifar10, load_cifar100
from headwater.experiments.data.cifar import CIFAR10, CIFAR100, Bytes, Layout
from headwater.experiments.tasks.models import CifarNet
from headwater.experiments.tasks.partition import Partition, Rows, dirichlet, halves, pachinko
from headwater.experiments.tasks.streams import steady
from headwater.experiments.tasks.task import Defaults, Split, part, pooled
from headwater.learning.federation import Part
from headwater.learning.problem import chunks
from headwater.learning.stored import Stored


@dataclass(frozen=True, eq=False)
class Images:
    """A set as the network is fed it: images float32 (N, 3, 32, 32), channels last in memory.

    They stay the bytes of the mapped file, and are scaled where they are looked at.
    """

    x: Stored
    y: Tensor
    test: Part
    coarse: Bytes | None
    complete: bool


@dataclass(frozen=True)
class _Cifar:
    """What both sets share.

    Attributes:
        data_dir: where the set's folder or archive lies; None: the user's cache.
        group: clients in each of the two groups.
        validation: the fraction of every client's samples that the learning rate is chosen by.
    """

    data_dir: Path | None = None
    group: int = 25
    validation: float = 0.2

    name: ClassVar[str]
    fraction_of: ClassVar[str] = "samples"
    defaults: ClassVar[Defaults] = Defaults(rounds=1600, batch_size=8, tests=8)

    @cached_property
    def data(self) -> Images:
        """The set; loaded once, and shared by processes that are forked afterwards."""
        raise NotImplementedError

    @property
    def complete(self) -> bool:
        """Whether the files are the whole original."""
        return self.data.complete

    def split(self, historical: float, rounds: int, seed: int) -> Split:
        """Both groups dealt out to their clients, the historical ones first."""
        x, y = self.data.x, self.data.y
        groups = zip(("historical", "fresh"), halves(len(y), historical, seed), strict=True)
        old, new = (self._deal(rows, seed, name).within(rows) for name, rows in groups)
        everyone = old.join(new)
        training, validation = everyone.carve(self.validation)
        return Split(
            tuning=steady(part(x, y, training), self.group, rounds, pooled(x, y, validation)),
            final=steady(part(x, y, everyone), self.group, rounds, self.data.test),
        )

    def _deal(self, rows: Rows, seed: int, group: str) -> Partition:
        raise NotImplementedError


@dataclass(frozen=True)
class Cifar10Task(_Cifar):
    """CIFAR-10, Dirichlet(0.4) by label within each group."""

    concentration: float = 0.4

    name: ClassVar[str] = "cifar10"

    @cached_property
    def data(self) -> Images:
        """CIFAR-10."""
        raw = load_cifar10(self.data_dir)
        test = _common(raw.test_images, raw.test_labels, CIFAR10)
        return Images(_images(raw.images, CIFAR10), _labels(raw.labels), test, None, raw.complete)

    def model(self, seed: int) -> nn.Module:
        """Two convolutions, two dense layers, 3,353,034 parameters."""
        return CifarNet(10, seed)

    def _deal(self, rows: Rows, seed: int, group: str) -> Partition:
        return dirichlet(self.data.y.numpy()[rows], self.group, self.concentration, seed, group)


@dataclass(frozen=True)
class Cifar100Task(_Cifar):
    """CIFAR-100, Pachinko allocation within each group."""

    name: ClassVar[str] = "cifar100"
    # As CIFAR-10, with more tests: two of them are in the last tenth of a run, to be averaged.
    defaults: ClassVar[Defaults] = Defaults(rounds=1600, batch_size=8, tests=20)

    @cached_property
    def data(self) -> Images:
        """CIFAR-100."""
        raw = load_cifar100(self.data_dir)
        test = _common(raw.test_images, raw.test_labels, CIFAR100)
        return Images(
            _images(raw.images, CIFAR100), _labels(raw.labels), test, raw.coarse, raw.complete
        )

    def model(self, seed: int) -> nn.Module:
        """The network of CIFAR-10 with 100 outputs, 3,537,444 parameters."""
        return CifarNet(100, seed)

    def _deal(self, rows: Rows, seed: int, group: str) -> Partition:
        assert self.data.coarse is not None
        return pachinko(
            self.data.coarse[rows], self.data.y.numpy()[rows], self.group, seed, group=group
        )


def _images(images: Bytes, layout: Layout) -> Stored:
    return Stored(torch.from_numpy(images), partial(_scaled, layout))


def _scaled(layout: Layout, images: Tensor) -> Tensor:
    """As :func:`headwater.experiments.data.cifar.normalise`, channels last; piece by piece, to stay
    in the cache: four times as fast."""
    mean, deviation = torch.tensor(layout.mean), torch.tensor(layout.deviation)
    scale, shift = (
        v.repeat(32) for v in (1 / (255 * deviation), mean / deviation)
    )  # a row of pixels
    x = torch.empty(len(images), 32, 32, 3)
    for piece in chunks(len(images), 500):
        x[piece].copy_(images[piece].permute(0, 2, 3, 1))
        x[piece].view(-1, 96).mul_(scale).sub_(shift)
    return x.permute(0, 3, 1, 2)


def _labels(labels: Bytes) -> Tensor:
    return torch.from_numpy(labels.astype(np.int64))


def _common(images: Bytes, labels: Bytes, layout: Layout) -> Part:
    return Part(_images(images, layout), _labels(labels), np.array([0, len(labels)]))
