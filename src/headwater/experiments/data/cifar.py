"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009) from the official binary files, which hold no pickles.

A record is its label bytes (one; in CIFAR-100 two, coarse then fine) and 3,072 bytes of pixels: 32
× 32, red plane, green plane, blue plane. The binary files' checksums are those by which MXNet's
Gluon knows them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.experiments.data.cache import Arrays, data_folder, parsed
from headwater.experiments.data.official import Archive, fetch, members, require

Bytes = NDArray[np.uint8]
_PIXELS = 3 * 32 * 32


@dataclass(frozen=True, eq=False)
class Cifar10:
    """Images (N, 3, 32, 32) and labels (N,), both bytes; ``complete`` if they are the whole
    official set."""

    images: Bytes
    labels: Bytes
    test_images: Bytes
    test_labels: Bytes
    complete: bool


@dataclass(frozen=True, eq=False)
class Cifar100(Cifar10):
    """As `Cifar10`, with the 20 coarse labels beside the 100 fine ones."""

    coarse: Bytes
    test_coarse: Bytes


@dataclass(frozen=True)
class Binary:
    """One official binary file: its number of records and its SHA-1."""

    name: str
    records: int
    sha1: str


@dataclass(frozen=True)
class Layout:
    """How a set is laid out, and the mean and deviation of its channels over the official training
    set."""

    name: str
    folder: str
    train: tuple[Binary, ...]
    test: Binary
    classes: tuple[int, ...]  # for each label byte, how many labels there are
    archive: Archive
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]

    @property
    def record(self) -> int:
        """Bytes of a record.

        >>> CIFAR10.record, CIFAR100.record
        (3073, 3074)
        """
        return len(self.classes) + _PIXELS


CIFAR10 = Layout(
    name="cifar10",
    folder="cifar-10-batches-bin",
    train=(
        Binary("data_batch_1.bin", 10_000, "aadd24acce27caa71bf4b10992e9e7b2d74c2540"),
        Binary("data_batch_2.bin", 10_000, "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795"),
        Binary("data_batch_3.bin", 10_000, "1dd00a74ab1d17a6e7d73e185b69dbf31242f295"),
        Binary("data_batch_4.bin", 10_000, "aab85764eb3584312d3c7f65fd2fd016e36a258e"),
        Binary("data_batch_5.bin", 10_000, "26e2849e66a845b7f1e4614ae70f4889ae604628"),
    ),
    test=Binary("test_batch.bin", 10_000, "67eb016db431130d61cd03c7ad570b013799c88c"),
    classes=(10,),
    archive=Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        170_052_171,
        "c32a1d4ab5d03f1284b67883e8d87530",
    ),
    mean=(0.4914, 0.4822, 0.4465),
    deviation=(0.2470, 0.2435, 0.2616),
)
CIFAR100 = Layout(
    name="cifar100",
    folder="cifar-100-binary",
    train=(Binary("train.bin", 50_000, "e207cd2e05b73b1393c74c7f5e7bea451d63e08e"),),
    test=Binary("test.bin", 10_000, "8fb6623e830365ff53cf14adec797474f5478006"),
    classes=(20, 100),
    archive=Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        168_513_733,
        "03b5dce01913d631647c71ecec9e9cb8",
    ),
    mean=(0.5071, 0.4865, 0.4409),
    deviation=(0.2673, 0.2564, 0.2762),
)


def load_cifar10(folder: Path | None = None) -> Cifar10:
    """CIFAR-10 from ``folder`` (default: the user's cache): unpacked, as the ``.tar.gz``, or
    downloaded."""
    arrays = _load(CIFAR10, folder)
    return Cifar10(complete=bool(arrays.pop("complete")), **arrays)


def load_cifar100(folder: Path | None = None) -> Cifar100:
    """CIFAR-100 from ``folder`` (default: the user's cache): unpacked, as the ``.tar.gz``, or
    downloaded."""
    arrays = _load(CIFAR100, folder)
    return Cifar100(complete=bool(arrays.pop("complete")), **arrays)


def normalise(images: Bytes, layout: Layout) -> NDArray[np.float32]:
    """What the networks are fed: (pixel / 255 − mean) / deviation, channel by channel.

    >>> normalise(np.full((1, 3, 32, 32), 255, np.uint8), CIFAR10)[0, :, 0, 0].round(4)
    array([2.0591, 2.1265, 2.1158], dtype=float32)
    """
    mean, deviation = (
        np.array(v, np.float32).reshape(3, 1, 1) for v in (layout.mean, layout.deviation)
    )
    scaled = images.astype(np.float32)
    scaled *= 1 / (255 * deviation)
    scaled -= mean / deviation
    return scaled


def _load(layout: Layout, folder: Path | None) -> Arrays:
    sources = _sources(layout, data_folder(folder))
    return dict(parsed(layout.name, sources, lambda: _parse(layout, sources)))


def _sources(layout: Layout, folder: Path) -> list[Path]:
    """The binary files, or the archive that holds them."""
    binaries = [folder / layout.folder / b.name for b in (*layout.train, layout.test)]
    missing = [path for path in binaries if not path.exists()]
    if not missing:
        return binaries
    if (folder / layout.folder).exists():
        raise InputError(
            f"{missing[0]} is missing, though its folder is there. Unpack {layout.archive.url} "
            f"again in {folder}"
        )
    if (folder / layout.test.name).exists():
        raise InputError(
            f"data folder {folder} is the set's own folder: give {folder.parent}, the one above it"
        )
    return [fetch(layout.archive, folder)]


def _parse(layout: Layout, sources: list[Path]) -> Arrays:
    binaries = (*layout.train, layout.test)
    if len(sources) == len(binaries):
        contents = [path.read_bytes() for path in sources]
    else:
        require(layout.archive, sources[0])
        contents = members(sources[0], [f"{layout.folder}/{b.name}" for b in binaries])
        sources = [
            sources[0] / layout.folder / b.name for b in binaries
        ]  # for what an error may have to say
    records = [_records(layout, *one) for one in zip(binaries, contents, sources, strict=True)]
    complete = all(len(r) == b.records for r, b in zip(records, binaries, strict=True))
    train, test = _columns(np.concatenate(records[:-1])), _columns(records[-1])
    return (
        train
        | {f"test_{name}": array for name, array in test.items()}
        | {"complete": np.array(complete)}
    )


def _records(layout: Layout, binary: Binary, content: bytes, path: Path) -> Bytes:
    """The records of one file. One of the official size must be the official file; shorter ones are
    parts."""
    official = binary.records * layout.record
    again = f"Delete it and unpack {layout.archive.url} again"
    if len(content) % layout.record or not content:
        raise InputError(
            f"{path} is truncated or of another format: expected {official:,} bytes, or a part of "
            "whole "
            f"records of {layout.record:,} bytes, found {len(content):,} bytes. {again}"
        )
    sha1 = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    if len(content) == official and sha1 != binary.sha1:
        raise InputError(f"{path} is altered: expected SHA-1 {binary.sha1}, found {sha1}. {again}")
    records = np.frombuffer(content, np.uint8).reshape(-1, layout.record)
    row, column = (*np.argwhere(records[:, : len(layout.classes)] >= layout.classes), (-1, -1))[0]
    if row >= 0:
        raise InputError(
            f"{path} is altered or of another format: record {row} has label "
            f"{records[row, column]}, "
            f"allowed are 0 to {layout.classes[column] - 1}. {again}"
        )
    return records


def _columns(records: Bytes) -> Arrays:
    *coarse, fine = records[:, :-_PIXELS].T
    columns = {"images": records[:, -_PIXELS:].reshape(-1, 3, 32, 32), "labels": fine}
    return columns | ({"coarse": coarse[0]} if coarse else {})
