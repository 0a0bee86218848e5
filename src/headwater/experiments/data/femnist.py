"""FEMNIST: handwritten characters by writer, from the JSON files that LEAF's preprocessing makes.

LEAF (Caldas et al. 2018) publishes scripts and no single file: 28 × 28 images of 62 classes (0–9,
A–Z, a–z) of NIST's Special Database 19, grouped by writer, each writer's samples split into train
and test. Background is white (255), ink black (0). LEAF repeats one sample of each writer; what the
files hold is kept as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.experiments.data.cache import Arrays, data_folder, parsed

Bytes = NDArray[np.uint8]
CLASSES = 62
MEAN, DEVIATION = 0.9615, 0.1642
"""Of pixel / 255 over the training images of 300 writers."""
_PIXELS = 28 * 28
_ALL_WRITERS = (
    3_550  # in LEAF's paper; the exact number depends on the options of its preprocessing
)
_PREPARE = (
    "There is no single official file to download. Get https://github.com/TalwalkarLab/leaf, run "
    "`./preprocess.sh -s niid --sf 1.0 -k 0 -t sample` in its data/femnist, and copy "
    "data/femnist/data/train "
    "and data/femnist/data/test to"
)


@dataclass(frozen=True, eq=False)
class Femnist:
    """Images (N, 28, 28) and labels (N,), both bytes, and each one's writer as an index into
    ``names``.

    Rows are ordered by writer, writers by name. The split into train and test is LEAF's own; a
    writer may have samples in one part only. ``complete`` if there are at least as many writers as
    in LEAF's paper (3,550).
    """

    images: Bytes
    labels: Bytes
    client: NDArray[np.int32]
    test_images: Bytes
    test_labels: Bytes
    test_client: NDArray[np.int32]
    names: NDArray[np.str_]
    complete: bool


def load_femnist(folder: Path | None = None) -> Femnist:
    """FEMNIST from ``femnist/{train,test}/*.json`` in ``folder`` (default: the user's cache)."""
    where = data_folder(folder) / "femnist"
    train, test = (_shards(where, part) for part in ("train", "test"))
    arrays = parsed("femnist", [*train, *test], lambda: _parse(train, test))
    return Femnist(**arrays, complete=len(arrays["names"]) >= _ALL_WRITERS)


def normalise(images: Bytes) -> NDArray[np.float32]:
    """What the network is fed: (pixel / 255 − mean) / deviation as rows of 784.

    LEAF's own input, pixel / 255, is 1 nearly everywhere, and a network of dense layers learns far
    slower from it.

    >>> normalise(np.full((2, 28, 28), 255, np.uint8))[:, 0].round(3)
    array([0.234, 0.234], dtype=float32)
    """
    rows = images.reshape(len(images), _PIXELS).astype(np.float32)
    rows *= np.float32(1 / (255 * DEVIATION))
    rows -= np.float32(MEAN / DEVIATION)
    return rows


def _shards(where: Path, part: str) -> list[Path]:
    found = sorted((where / part).glob("*.json"))
    if not found:
        raise InputError(
            f"{where / part} holds no *.json: FEMNIST as LEAF prepares it is missing. {_PREPARE} "
            f"{where}"
        )
    return found


def _parse(train: list[Path], test: list[Path]) -> Arrays:
    parts = [_writers(train), _writers(test)]
    names = sorted(parts[0].keys() | parts[1].keys())
    arrays = {"names": np.array(names)}
    for prefix, writers in zip(("", "test_"), parts, strict=True):
        images, labels = zip(*(writers[n] for n in names if n in writers), strict=True)
        sizes = [len(writers[n][1]) if n in writers else 0 for n in names]
        arrays[f"{prefix}images"] = np.concatenate(images)
        arrays[f"{prefix}labels"] = np.concatenate(labels)
        arrays[f"{prefix}client"] = np.repeat(np.arange(len(names), dtype=np.int32), sizes)
    return arrays


def _writers(shards: Iterable[Path]) -> dict[str, tuple[Bytes, Bytes]]:
    """Images and labels of every writer in the shards; no writer may be in two of them."""
    found: dict[str, tuple[Bytes, Bytes]] = {}
    for shard in shards:
        for name, samples in _shard(shard).items():
            if name in found:
                raise InputError(
                    f"{shard} has writer {name}, whom another file of {shard.parent} has, too: "
                    "keep the files of one run of LEAF's preprocess.sh only"
                )
            found[name] = samples
    return found


def _shard(path: Path) -> dict[str, tuple[Bytes, Bytes]]:
    content = _json(path)
    try:
        users, sizes, data = content["users"], content["num_samples"], content["user_data"]
        return {u: _samples(data[u], n) for u, n in zip(users, sizes, strict=True)}
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} is altered or not LEAF's ({error!r}): expected users, num_samples and "
            "user_data, with as "
            f"many samples x (784 numbers from 0 to 1) and y (0 to {CLASSES - 1}) as num_samples "
            "says. "
            "Copy or prepare it again"
        ) from error


class _Floats(dict[str, float]):
    """A number for each spelling. There are 256 pixel values: to share them takes a third of the
    memory."""

    def __missing__(self, text: str) -> float:
        return self.setdefault(text, float(text))


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes(), parse_float=_Floats().__getitem__)
    except ValueError as error:
        raise InputError(
            f"{path} is truncated or altered: {path.stat().st_size:,} bytes that are not JSON "
            f"({error}). "
            "Copy or prepare it again"
        ) from error


def _samples(user: Any, size: int) -> tuple[Bytes, Bytes]:
    pixels, labels = np.asarray(user["x"], np.float64), np.asarray(user["y"], np.int64)
    if len(pixels) != size or len(labels) != size:
        raise ValueError(f"num_samples is {size}, found {len(pixels)} x and {len(labels)} y")
    if size and not (
        pixels.min() >= 0 and pixels.max() <= 1 and labels.min() >= 0 and labels.max() < CLASSES
    ):
        raise ValueError("a pixel or label is out of its range")
    return np.rint(pixels * 255).astype(np.uint8).reshape(size, 28, 28), labels.astype(np.uint8)
