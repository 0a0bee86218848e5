"""FEMNIST from LEAF's JSON: several shards, real writers, and files that are not what they should
be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwater.errors import InputError
from headwater.experiments.data import load_femnist
from headwater.experiments.data.femnist import DEVIATION, MEAN, normalise

Shard = dict[str, Any]


def shard(**writers: int) -> Shard:
    """LEAF's JSON for writers with so many samples each; a sample's first pixel is its label."""
    data = {}
    for name, size in writers.items():
        labels = [(len(name) * 7 + i) % 62 for i in range(size)]
        data[name] = {"x": [[round(y / 255, 4)] + [1.0] * 783 for y in labels], "y": labels}
    return {"users": list(writers), "num_samples": list(writers.values()), "user_data": data}


def lay_out(folder: Path, **shards: Shard) -> None:
    """``train_0=…, test_1=…`` and so on."""
    for name, content in shards.items():
        part, number = name.split("_")
        path = folder / "femnist" / part / f"all_data_{number}_niid_0_keep_0_{part}_9.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))


def test_shards_are_joined_and_rows_ordered_by_writer(data: Path) -> None:
    lay_out(
        data,
        train_0=shard(zoe=3, bob=2),
        train_1=shard(alice=4),
        test_0=shard(zoe=1, bob=1),
        test_1=shard(alice=1, yves=2),
    )
    femnist = load_femnist(data)
    assert femnist.names.tolist() == ["alice", "bob", "yves", "zoe"]
    assert femnist.client.tolist() == [0] * 4 + [1] * 2 + [3] * 3  # yves has test samples only
    assert femnist.test_client.tolist() == [0, 1, 2, 2, 3]
    assert femnist.labels[4:6].tolist() == [21, 22]  # bob's
    np.testing.assert_array_equal(femnist.images[:, 0, 0], femnist.labels)
    assert femnist.images.shape == (9, 28, 28)
    assert femnist.images.dtype == np.uint8
    assert not femnist.complete


def test_pixels_survive_their_way_through_json(data: Path) -> None:
    one = shard(bob=1)
    one["user_data"]["bob"]["x"] = [[i % 256 / 255 for i in range(784)]]
    lay_out(data, train_0=one, test_0=one)
    femnist = load_femnist(data)
    assert femnist.images.ravel().tolist() == [i % 256 for i in range(784)]
    pixels = normalise(femnist.images).astype(np.float64) * DEVIATION + MEAN
    np.testing.assert_allclose(pixels, one["user_data"]["bob"]["x"], atol=1e-6)


@pytest.mark.needs_data
def test_real_writers_are_read_without_loss(shared: Path, data: Path) -> None:
    real = np.load(shared / "femnist_leaf.npz")
    chosen = [7, 120, 299]
    for number, part in enumerate(("train", "test")):
        content: Shard = {"users": [], "num_samples": [], "user_data": {}}
        for writer in chosen:
            mine = (real["writer"] == writer) & (real["split"] == number)
            name = str(real["writers"][writer])
            content["users"].append(name)
            content["num_samples"].append(int(mine.sum()))
            pixels = np.round(
                real["x"][mine].reshape(-1, 784) / 255, 4
            )  # as LEAF's files are, shortened
            content["user_data"][name] = {"x": pixels.tolist(), "y": real["y"][mine].tolist()}
        lay_out(data, **{f"{part}_0": content})
    femnist = load_femnist(data)
    names = femnist.names.tolist()
    assert names == sorted(real["writers"][chosen])
    for writer in chosen:
        mine = (real["writer"] == writer) & (real["split"] == 0)
        ours = femnist.client == names.index(real["writers"][writer])
        np.testing.assert_array_equal(femnist.images[ours], real["x"][mine])
        np.testing.assert_array_equal(femnist.labels[ours], real["y"][mine])
    assert (
        len(femnist.test_labels) == (np.isin(real["writer"], chosen) & (real["split"] == 1)).sum()
    )


@pytest.mark.needs_data
def test_real_images_are_normalised(shared: Path) -> None:
    real = np.load(shared / "femnist_leaf.npz")
    fed = normalise(real["x"][real["split"] == 0])
    assert fed.mean() == pytest.approx(0, abs=0.002)
    assert fed.std() == pytest.approx(1, abs=0.002)


def refused(folder: Path, *words: str) -> None:
    with pytest.raises(InputError) as error:
        load_femnist(folder)
    for word in words:
        assert word in str(error.value)


def test_no_data_says_how_to_make_them_and_where_to_put_them(data: Path, home: Path) -> None:
    refused(
        data,
        str(data / "femnist" / "train"),
        "TalwalkarLab/leaf",
        "./preprocess.sh",
        f"to {data / 'femnist'}",
    )
    lay_out(data, train_0=shard(bob=2))
    refused(data, str(data / "femnist" / "test"))
    with pytest.raises(InputError, match=str(home / "femnist")):
        load_femnist()


def test_a_truncated_file(data: Path) -> None:
    lay_out(data, train_0=shard(bob=2), test_0=shard(bob=1))
    (path,) = (data / "femnist" / "test").iterdir()
    path.write_bytes(path.read_bytes()[:-100])
    refused(data, str(path), "truncated", f"{path.stat().st_size:,} bytes", "prepare it again")


def altered(change: str) -> Shard:
    content = shard(bob=3, eve=2)
    bob = content["user_data"]["bob"]
    match change:
        case "a sample fewer":
            bob["x"].pop(), bob["y"].pop()
        case "a label fewer":
            bob["y"].pop()
        case "a pixel fewer":
            bob["x"][1].pop()
        case "a pixel fewer in all":
            bob["x"] = [x[1:] for x in bob["x"]]
        case "a pixel too bright":
            bob["x"][2][5] = 1.5
        case "a pixel that is no number":
            bob["x"][2][5] = float("nan")
        case "a label too high":
            bob["y"][0] = 62
        case "a writer gone":
            del content["user_data"]["eve"]
        case "a key gone":
            del content["num_samples"]
        case "another thing":
            return []  # type: ignore[return-value]
        case _:
            raise AssertionError(change)
    return content


@pytest.mark.parametrize(
    "change",
    [
        "a sample fewer",
        "a label fewer",
        "a pixel fewer",
        "a pixel fewer in all",
        "a pixel too bright",
        "a pixel that is no number",
        "a label too high",
        "a writer gone",
        "a key gone",
        "another thing",
    ],
)
def test_an_altered_file(data: Path, home: Path, change: str) -> None:
    lay_out(data, train_0=altered(change), test_0=shard(bob=1))
    refused(data, str(data / "femnist" / "train"), "altered", "num_samples", "again")
    assert not (home / "parsed").exists()


def test_files_of_two_runs_in_one_folder(data: Path) -> None:
    lay_out(data, train_0=shard(bob=2), train_1=shard(bob=2), test_0=shard(bob=1))
    refused(data, "bob", "another file", "one run")
