"""The small real records in ``tests/fixtures``: a few of each data set in its official layout.

``python tests/support/real_slices.py ORIGINALS`` wrote them, from a folder with the whole sets.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

FIXTURES = Path(__file__).parents[1] / "fixtures"
CIFAR10 = ("cifar10.zip", "cifar-10-batches-bin", ("labels",))
CIFAR100 = ("cifar100_half.zip", "cifar-100-binary", ("coarse", "labels"))
BATCHES = {f"data_batch_{k}.bin": 18 for k in range(1, 6)}


def write(originals: Path, folder: Path) -> None:
    """All slices, about 0.9 MB."""
    cifar(originals, folder, CIFAR10, "train", BATCHES)
    cifar(originals, folder, CIFAR10, "test", {"test_batch.bin": 10})
    cifar(originals, folder, CIFAR100, "train", {"train.bin": 80})
    cifar(originals, folder, CIFAR100, "test", {"test.bin": 10})
    femnist(originals, folder, "train", 5)
    femnist(originals, folder, "test", 2)
    shakespeare(originals, folder)
    wisdm(originals, folder)


def cifar(
    originals: Path,
    folder: Path,
    source: tuple[str, str, tuple[str, ...]],
    kind: str,
    files: dict[str, int],
) -> None:
    """The first images of a set, so many in each file."""
    from PIL import Image

    archive, where, names = source
    (folder / where).mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(originals / archive) as z:
        strip = np.asarray(Image.open(io.BytesIO(z.read(f"{kind}/000.webp"))))
        labels = [np.load(io.BytesIO(z.read(f"{kind}_{name}.npy"))) for name in names]
    pixels = strip.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2).reshape(-1, 3072)
    columns = [*(column[: len(pixels)] for column in labels), pixels]
    records = np.column_stack(columns).astype(np.uint8)
    ends = np.cumsum(list(files.values()))
    for name, part in zip(files, np.split(records, ends)[:-1], strict=True):
        (folder / where / name).write_bytes(part.tobytes())


def femnist(originals: Path, folder: Path, kind: str, most: int, writers: int = 10) -> None:
    """The first characters of the first writers, as LEAF's JSON."""
    with np.load(originals / "femnist_leaf.npz") as d:
        x, y, writer, split, names = (d[k] for k in ("x", "y", "writer", "split", "writers"))
    users: dict[str, Any] = {}
    for w in range(writers):
        rows = np.flatnonzero((writer == w) & (split == (kind == "test")))[:most]
        pixels = (x[rows].reshape(len(rows), -1) / 255.0).round(6)
        users[str(names[w])] = {"x": pixels.tolist(), "y": y[rows].tolist()}
    counts = [len(user["y"]) for user in users.values()]
    content = {"users": list(users), "num_samples": counts, "user_data": users}
    target = folder / "femnist" / kind
    target.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, separators=(",", ":"))
    (target / f"all_data_0_niid_0_keep_0_{kind}_9.json").write_text(text)


def shakespeare(originals: Path, folder: Path, roles: int = 10) -> None:
    """The first lines of the first roles that have a few."""
    target = folder / "shakespeare" / "by_play_and_character"
    target.mkdir(parents=True, exist_ok=True)
    with gzip.open(originals / "shakespeare" / "moby_roles.json.gz") as file:
        found = [r for r in json.load(file)["roles"] if len(r["speeches"]) >= 5][:roles]
    for r in found:
        name = f"{r['play']}_{r['role']}".replace(" ", "_").replace("'", "")
        (target / f"{name}.txt").write_text("\n".join(r["speeches"])[:3000])


def wisdm(originals: Path, folder: Path, users: tuple[str, ...] = ("33", "20", "17", "29")) -> None:
    """The readme, and all windows of a few users, cut to every third."""
    target = folder / "WISDM_ar_v1.1"
    target.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(originals / "sensors" / "WISDM_ar_v1.1_transformed.zip") as z:
        (target / "readme.txt").write_bytes(z.read("readme.txt"))
        text = z.read("WISDM_ar_v1.1_transformed.arff").decode()
    head, rows = text.split("@data\n")
    mine = [row for row in rows.splitlines() if row.split(",")[1] in users][::3]
    body = "\n".join([head + "@data", *mine, ""])
    (target / "WISDM_ar_v1.1_transformed.arff").write_text(body)


if __name__ == "__main__":
    write(Path(sys.argv[1]), FIXTURES)
