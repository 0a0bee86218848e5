"""A few hundred real records of each data set, laid out as the official distributions do."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SHARED = Path(__file__).parents[3] / "shared" / "data"


def need_shared() -> None:
    if not SHARED.is_dir():
        pytest.skip(f"the real data are not in {SHARED}")


def cifar(folder: Path, archive: str, where: str, files: list[str], each: int) -> None:
    """``each`` of the first images in each file; the last file is the test set."""
    image = pytest.importorskip(
        "PIL.Image", reason="the stored CIFAR is in WebP strips, which need Pillow"
    )
    target = folder / where
    target.mkdir()
    with zipfile.ZipFile(SHARED / archive) as z:
        for kind, names in (("train", files[:-1]), ("test", files[-1:])):
            strip = np.asarray(image.open(io.BytesIO(z.read(f"{kind}/000.webp")))).reshape(
                -1, 32, 32, 3
            )
            pixels = strip.transpose(0, 3, 1, 2).reshape(len(strip), -1)
            labels = [
                np.load(io.BytesIO(z.read(f"{kind}_{name}.npy"))) for name in _labels(archive)
            ]
            records = np.column_stack(
                [*(column[: len(pixels)] for column in labels), pixels]
            ).astype(np.uint8)
            for k, name in enumerate(names):
                (target / name).write_bytes(records[k * each : (k + 1) * each].tobytes())


def _labels(archive: str) -> list[str]:
    return ["coarse", "labels"] if "100" in archive else ["labels"]


def cifar10(folder: Path) -> None:
    files = [f"data_batch_{k}.bin" for k in range(1, 6)] + ["test_batch.bin"]
    cifar(folder, "cifar10.zip", "cifar-10-batches-bin", files, 60)


def cifar100(folder: Path) -> None:
    cifar(folder, "cifar100_half.zip", "cifar-100-binary", ["train.bin", "test.bin"], 400)


def femnist(folder: Path, writers: int = 10, most: int = 30) -> None:
    with np.load(SHARED / "femnist_leaf.npz") as d:
        x, y, writer, split, names = (d[k] for k in ("x", "y", "writer", "split", "writers"))
    for part, kind in enumerate(("train", "test")):
        users: dict[str, Any] = {}
        for w in range(writers):
            rows = np.flatnonzero((writer == w) & (split == part))[:most]
            pixels = (x[rows].reshape(len(rows), -1) / 255.0).round(6)
            users[str(names[w])] = {"x": pixels.tolist(), "y": y[rows].tolist()}
        content = {
            "users": list(users),
            "num_samples": [len(u["y"]) for u in users.values()],
            "user_data": users,
        }
        target = folder / "femnist" / kind
        target.mkdir(parents=True)
        (target / "all_data_0.json").write_text(json.dumps(content))


def shakespeare(folder: Path, roles: int = 10) -> None:
    target = folder / "shakespeare" / "by_play_and_character"
    target.mkdir(parents=True)
    with gzip.open(SHARED / "shakespeare" / "moby_roles.json.gz") as file:
        found = [r for r in json.load(file)["roles"] if len(r["speeches"]) >= 5][:roles]
    for r in found:
        name = f"{r['play']}_{r['role']}".replace(" ", "_").replace("/", "_")
        (target / f"{name}.txt").write_text("\n".join(r["speeches"])[:3000])
