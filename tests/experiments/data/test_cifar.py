"""CIFAR from binary files, from the archive, and from files that are not what they should be."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from headwater.errors import InputError
from headwater.experiments.data import cifar, load_cifar10, load_cifar100
from headwater.experiments.data.cifar import CIFAR10, CIFAR100, Binary, Layout, normalise
from headwater.experiments.data.official import Archive

SMALL = replace(
    CIFAR10, train=tuple(replace(b, records=4) for b in CIFAR10.train)
)  # so that 4 records are "all"


def records(layout: Layout, count: int, seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    labels = [draw.integers(0, classes, count, np.uint8) for classes in layout.classes]
    return np.column_stack([*labels, draw.integers(0, 256, (count, 3072), np.uint8)])


def lay_out(folder: Path, layout: Layout, count: int = 4) -> list[np.ndarray]:
    (folder / layout.folder).mkdir()
    parts = [records(layout, count, seed) for seed in range(len(layout.train) + 1)]
    for binary, part in zip((*layout.train, layout.test), parts, strict=True):
        (folder / layout.folder / binary.name).write_bytes(part.tobytes())
    return parts


def pack(folder: Path, layout: Layout) -> Layout:
    """The set as an archive in place of its folder, and the layout that knows the archive."""
    path = folder / layout.archive.name
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder / layout.folder, layout.folder)
    for file in (folder / layout.folder).iterdir():
        file.unlink()
    (folder / layout.folder).rmdir()
    md5 = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    return replace(
        layout, archive=Archive(f"http://127.0.0.1:9/{path.name}", path.stat().st_size, md5)
    )


def everything(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def test_records_are_label_then_red_green_and_blue_planes_in_the_order_of_the_files(
    data: Path,
) -> None:
    parts = lay_out(data, CIFAR10)
    cifar10 = load_cifar10(data)
    assert cifar10.images.shape == (20, 3, 32, 32)
    assert cifar10.test_images.shape == (4, 3, 32, 32)
    raw = parts[2][1]  # the second record of the third file
    assert cifar10.labels[9] == raw[0]
    assert cifar10.images[9, 0, 0, 31] == raw[1 + 31]
    assert cifar10.images[9, 1, 2, 3] == raw[1 + 1024 + 2 * 32 + 3]
    assert cifar10.images[9, 2, 31, 31] == raw[3072]
    np.testing.assert_array_equal(cifar10.test_labels, parts[5][:, 0])
    assert not cifar10.complete


def test_cifar100_has_the_coarse_label_first(data: Path) -> None:
    train, test = lay_out(data, CIFAR100)
    cifar100 = load_cifar100(data)
    np.testing.assert_array_equal(cifar100.coarse, train[:, 0])
    np.testing.assert_array_equal(cifar100.labels, train[:, 1])
    np.testing.assert_array_equal(cifar100.test_coarse, test[:, 0])
    np.testing.assert_array_equal(cifar100.test_images.reshape(4, -1), test[:, 2:])
    assert not cifar100.complete


def test_the_archive_is_read_as_it_is_and_nothing_is_unpacked(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = lay_out(data, CIFAR10)
    monkeypatch.setattr(cifar, "CIFAR10", pack(data, CIFAR10))
    np.testing.assert_array_equal(
        load_cifar10(data).images.reshape(20, -1), np.concatenate(parts[:5])[:, 1:]
    )
    assert everything(data) == {data / "cifar-10-binary.tar.gz"}


def test_official_files_make_a_complete_set(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = lay_out(data, CIFAR10)
    sums = [hashlib.sha1(p.tobytes(), usedforsecurity=False).hexdigest() for p in parts]
    known = [
        Binary(b.name, 4, s) for b, s in zip((*CIFAR10.train, CIFAR10.test), sums, strict=True)
    ]
    monkeypatch.setattr(cifar, "CIFAR10", replace(CIFAR10, train=tuple(known[:-1]), test=known[-1]))
    assert load_cifar10(data).complete


def test_normalised_channels_have_the_stated_mean_and_deviation() -> None:
    images = records(CIFAR100, 6)[:, 2:].reshape(6, 3, 32, 32)
    for channel in range(3):
        expected = (images[:, channel] / 255.0 - CIFAR100.mean[channel]) / CIFAR100.deviation[
            channel
        ]
        np.testing.assert_allclose(normalise(images, CIFAR100)[:, channel], expected, atol=2e-6)


def refused(folder: Path, *words: str) -> None:
    """Loading fails, says why, and leaves everything as it was."""
    before = everything(folder.parent)
    with pytest.raises(InputError) as error:
        load_cifar10(folder)
    for word in words:
        assert word in str(error.value)
    left = {path for path in everything(folder.parent) - before if path.is_file()}
    assert not left


def test_a_missing_file(data: Path) -> None:
    lay_out(data, CIFAR10)
    gone = data / CIFAR10.folder / "data_batch_3.bin"
    gone.unlink()
    refused(data, str(gone), "missing", CIFAR10.archive.url)


@pytest.mark.parametrize("size", [0, 4 * 3073 - 1, 5000])
def test_a_truncated_file(data: Path, size: int) -> None:
    lay_out(data, CIFAR10)
    path = data / CIFAR10.folder / "data_batch_2.bin"
    path.write_bytes(path.read_bytes()[:size])
    refused(data, str(path), "truncated", "30,730,000 bytes", f"found {size:,} bytes", "Delete it")


def test_an_altered_file_of_the_official_size(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = lay_out(data, CIFAR10)
    monkeypatch.setattr(cifar, "CIFAR10", SMALL)
    found = hashlib.sha1(parts[0].tobytes(), usedforsecurity=False).hexdigest()
    refused(
        data,
        "data_batch_1.bin",
        "altered",
        f"expected SHA-1 {CIFAR10.train[0].sha1}, found {found}",
    )


def test_a_label_that_cannot_be(data: Path) -> None:
    parts = lay_out(data, CIFAR10)
    parts[5][2, 0] = 10
    path = data / CIFAR10.folder / "test_batch.bin"
    path.write_bytes(parts[5].tobytes())
    refused(data, str(path), "record 2 has label 10", "0 to 9")


def test_a_folder_that_is_not_there_or_not_the_right_one(data: Path) -> None:
    lay_out(data, CIFAR10)
    refused(data / "elsewhere", "elsewhere", "no such folder", "cifar-10-batches-bin")
    refused(data / CIFAR10.folder / "test_batch.bin", "a file, not a folder")
    refused(data / CIFAR10.folder, "is the set's own folder", f"give {data}")


@pytest.mark.parametrize("fault", ["truncated", "altered"])
def test_a_bad_archive(data: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    lay_out(data, CIFAR10)
    layout = pack(data, CIFAR10)
    monkeypatch.setattr(cifar, "CIFAR10", layout)
    path = data / layout.archive.name
    content = path.read_bytes()
    path.write_bytes(
        content[: len(content) // 2] if fault == "truncated" else content[:-1] + b"\xff"
    )
    refused(
        data,
        str(path),
        fault,
        layout.archive.md5,
        f"{layout.archive.size:,} bytes",
        "Delete it and fetch",
    )


def test_nothing_there_and_no_network(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "http://127.0.0.1:9/cifar-10-binary.tar.gz"
    monkeypatch.setattr(
        cifar, "CIFAR10", replace(CIFAR10, archive=replace(CIFAR10.archive, url=url))
    )
    refused(data, url, "170,052,171 bytes", CIFAR10.archive.md5, f"into {data}")


def decode(archive: zipfile.ZipFile, strips: list[str]) -> np.ndarray:
    """The shared copy's images, (n, 32, 32, 3): not our reader, and another layout than the
    official one."""
    opened = (np.asarray(Image.open(io.BytesIO(archive.read(name)))) for name in strips)
    return np.concatenate([strip.reshape(-1, 32, 32, 3) for strip in opened])


def array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    return np.asarray(np.load(io.BytesIO(archive.read(name))))


@pytest.mark.needs_data
def test_real_cifar10_is_complete_and_has_the_pixels_of_the_original(
    shared: Path, data: Path
) -> None:
    (data / CIFAR10.folder).mkdir()
    with zipfile.ZipFile(shared / "cifar10.zip") as archive:
        for part, binaries in (("train", CIFAR10.train), ("test", (CIFAR10.test,))):
            images = decode(
                archive, sorted(n for n in archive.namelist() if n.startswith(f"{part}/"))
            )
            labels = array(archive, f"{part}_labels.npy")
            for number, binary in enumerate(binaries):
                mine = slice(number * 10_000, (number + 1) * 10_000)
                planes = images[mine].transpose(0, 3, 1, 2).reshape(10_000, 3072)
                (data / CIFAR10.folder / binary.name).write_bytes(
                    np.c_[labels[mine], planes].tobytes()
                )
    cifar10 = load_cifar10(data)
    assert cifar10.complete
    assert hashlib.sha256(cifar10.images).hexdigest().startswith("9d5c2eddadb0deff02c14c350c0385aa")
    assert (
        hashlib.sha256(cifar10.test_images)
        .hexdigest()
        .startswith("177777c33ba79825320efa646ad04a94")
    )
    assert cifar10.labels[:10].tolist() == [
        6,
        9,
        9,
        4,
        1,
        1,
        2,
        7,
        8,
        3,
    ]  # frog, truck, truck, deer, …
    assert set(np.bincount(cifar10.labels)) == {5000}
    assert set(np.bincount(cifar10.test_labels)) == {1000}
    pixels = normalise(cifar10.images[::10], CIFAR10)
    np.testing.assert_allclose(pixels.mean((0, 2, 3)), 0, atol=0.02)
    np.testing.assert_allclose(pixels.std((0, 2, 3)), 1, atol=0.02)


@pytest.mark.needs_data
def test_a_real_slice_of_cifar100_has_consistent_labels(shared: Path, data: Path) -> None:
    (data / CIFAR100.folder).mkdir()
    with zipfile.ZipFile(shared / "cifar100_half.zip") as archive:
        images = decode(archive, ["train/000.webp"])
        fine, coarse = (array(archive, f"train_{name}.npy")[:500] for name in ("labels", "coarse"))
    planes = images.transpose(0, 3, 1, 2).reshape(500, 3072)
    for binary, part in zip(
        (*CIFAR100.train, CIFAR100.test), (slice(300), slice(300, 500)), strict=True
    ):
        raw = np.c_[coarse[part], fine[part], planes[part]]
        (data / CIFAR100.folder / binary.name).write_bytes(raw.astype(np.uint8).tobytes())
    cifar100 = load_cifar100(data)
    assert not cifar100.complete
    assert (cifar100.images.shape, cifar100.test_images.shape) == (
        (300, 3, 32, 32),
        (200, 3, 32, 32),
    )
    np.testing.assert_array_equal(cifar100.images[7].transpose(1, 2, 0), images[7])
    assert (cifar100.labels[0], cifar100.coarse[0]) == (
        19,
        11,
    )  # cattle, large omnivores and herbivores
    fines = np.r_[cifar100.labels, cifar100.test_labels]
    coarses = np.r_[cifar100.coarse, cifar100.test_coarse]
    assert (
        len(set(zip(fines, coarses, strict=True))) == len(set(fines)) == 99
    )  # each fine label under one coarse
