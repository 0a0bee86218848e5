"""The committed records of each set are read as what they are, on every machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from real_slices import FIXTURES

from headwater.experiments.data import (
    load_cifar10,
    load_cifar100,
    load_femnist,
    load_shakespeare,
)
from headwater.experiments.data.shakespeare import decode


def test_cifar10_begins_as_the_official_set_does() -> None:
    cifar10 = load_cifar10(FIXTURES)
    assert cifar10.images.shape == (90, 3, 32, 32)
    frog_truck_truck_deer = [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert cifar10.labels[:10].tolist() == frog_truck_truck_deer
    assert cifar10.images[0, :, 0, 0].tolist() == [59, 62, 63]  # the frog's first pixel
    assert not cifar10.complete


def test_cifar100_has_each_fine_label_under_one_coarse_label() -> None:
    cifar100 = load_cifar100(FIXTURES)
    assert (cifar100.labels[0], cifar100.coarse[0]) == (19, 11)  # cattle among large herbivores
    fine = np.r_[cifar100.labels, cifar100.test_labels].tolist()
    coarse = np.r_[cifar100.coarse, cifar100.test_coarse].tolist()
    assert len(set(zip(fine, coarse, strict=True))) == len(set(fine)) > 40


def test_writers_have_dark_ink_on_white_paper_and_names_of_nist() -> None:
    femnist = load_femnist(FIXTURES)
    assert len(femnist.names) == 10
    assert all(re.fullmatch(r"f\d{4}_\d\d", name) for name in femnist.names)
    assert np.bincount(femnist.client).tolist() == [5] * 10
    assert np.median(femnist.images) == 255
    assert (femnist.images.reshape(50, -1).min(1) < 100).all()  # everybody wrote something


def test_roles_speak_their_own_lines() -> None:
    shakespeare = load_shakespeare(FIXTURES)
    name = "Alls_Well_That_Ends_Well_Clown"
    text = (FIXTURES / "shakespeare" / "by_play_and_character" / f"{name}.txt").read_text()
    clown = shakespeare.names.tolist().index(name)
    said = decode(shakespeare.targets[shakespeare.client == clown].ravel())
    assert said.startswith("Tis not unknown to you, madam")  # all but the first character
    assert said == " ".join(text.split(" "))[1 : 1 + len(said)]


def test_the_fixtures_stay_small() -> None:
    assert sum(path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file()) < 1e6


def test_tests_without_their_data_are_counted_and_named(tmp_path: Path) -> None:
    nowhere = {**os.environ, "HEADWATER_ORIGINALS": str(tmp_path / "nowhere")}
    answer = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-m",
            "needs_data",
            str(Path(__file__).parent),
        ],
        env=nowhere,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"(\d+) tests marked needs_data did not run: (.*)", answer.stdout)
    assert found is not None, answer.stdout + answer.stderr
    assert int(found[1]) >= 5
    assert found[2].startswith(f"the whole data sets are not in {tmp_path / 'nowhere'}")
