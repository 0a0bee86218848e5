"""WISDM from ARFF: alone, zipped, in the official archive, and files that are not what they should
be."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from real_slices import FIXTURES

from headwater.errors import InputError
from headwater.experiments.data import load_wisdm, wisdm
from headwater.experiments.data.official import Archive
from headwater.experiments.data.wisdm import ACTIVITIES

FILE = FIXTURES / "WISDM_ar_v1.1" / "WISDM_ar_v1.1_transformed.arff"


def rows() -> list[list[str]]:
    return [line.split(",") for line in FILE.read_text().split("@data\n")[1].splitlines()]


def test_windows_are_ordered_by_user_and_stay_in_the_order_of_recording() -> None:
    found = load_wisdm(FIXTURES)
    assert found.names.tolist() == ["17", "20", "29", "33"]
    assert not found.complete
    for client, user in enumerate(found.names):
        mine = [row for row in rows() if row[1] == user]
        ours = found.client == client
        assert [ACTIVITIES[label] for label in found.labels[ours]] == [row[-1] for row in mine]
        expected = [[np.nan if v == "?" else float(v) for v in row[2:-1]] for row in mine]
        np.testing.assert_array_equal(found.features[ours], np.array(expected, np.float32))
    assert np.isnan(found.features).any()


def test_a_zip_and_the_official_archive_hold_the_same(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = load_wisdm(FIXTURES)
    with zipfile.ZipFile(data / "WISDM_ar_v1.1_transformed.zip", "w") as archive:
        archive.write(FILE, FILE.name)
    np.testing.assert_array_equal(load_wisdm(data).features, plain.features)
    (data / "WISDM_ar_v1.1_transformed.zip").unlink()
    with tarfile.open(data / "WISDM_ar_latest.tar.gz", "w:gz") as tar:
        tar.add(FILE, f"WISDM_ar_v1.1/{FILE.name}")
    with pytest.raises(InputError, match=r"not hold the known WISDM_ar.*SHA-256.*unpack it to"):
        load_wisdm(data)  # a part of it, which an official archive is not
    monkeypatch.setattr(wisdm, "_SHA256", wisdm.hashlib.sha256(FILE.read_bytes()).hexdigest())
    again = load_wisdm(data)
    assert again.complete
    np.testing.assert_array_equal(again.labels, plain.labels)


def test_nothing_there_and_no_network(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "http://127.0.0.1:9/WISDM_ar_latest.tar.gz"
    monkeypatch.setattr(wisdm, "_ARCHIVE", Archive(url, None, None))
    with pytest.raises(InputError, match=f"Fetch {url} where there is a network .* into {data}"):
        load_wisdm(data)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.split("@data")[0], "no rows after @data"),
        (lambda text: text.replace(",Jogging", ",Flying", 1), "row 1 after @data.*Flying"),
        (lambda text: text.rstrip()[:-40] + "\n", "row 243 after @data: expected 46 columns"),
        (lambda text: text.replace("0.09", "much", 1), "could not convert string to float: 'much'"),
    ],
)
def test_an_altered_file(data: Path, change: object, words: str) -> None:
    (data / FILE.name).write_text(change(FILE.read_text()))  # type: ignore[operator]
    with pytest.raises(InputError, match=words):
        load_wisdm(data)


@pytest.mark.needs_data
def test_the_whole_set(shared: Path) -> None:
    found = load_wisdm(shared / "sensors")
    assert found.complete
    assert found.features.shape == (5418, 43)
    assert len(found.names) == 36
    assert np.bincount(found.labels).tolist() == [2081, 1625, 632, 528, 306, 246]
