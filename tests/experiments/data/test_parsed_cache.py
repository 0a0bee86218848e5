"""The parsed copy: used when it fits, rebuilt when it does not, never half-written."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from headwater.errors import InputError
from headwater.experiments.data import cache
from headwater.experiments.data.cache import Arrays, data_folder, parsed

ARRAYS: Arrays = {
    "images": np.random.default_rng(0).integers(0, 256, (50, 3, 8, 8), np.uint8),
    "targets": np.arange(-5, 5, dtype=np.int8).reshape(2, 5),
    "client": np.arange(7, dtype=np.int32),
    "names": np.array(["f0001_41", "KING_LEAR", "é"]),
    "nothing": np.empty((0, 28, 28), np.uint8),
}


class Parser:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Arrays:
        self.calls += 1
        return ARRAYS


@pytest.fixture
def source(data: Path) -> Path:
    path = data / "source.bin"
    path.write_bytes(b"something")
    return path


def stored(home: Path) -> Path:
    (only,) = (home / "parsed").iterdir()
    return only


def check(arrays: Arrays) -> None:
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype


def test_the_second_time_nothing_is_parsed_and_every_kind_of_array_is_the_same(
    source: Path, home: Path
) -> None:
    parse = Parser()
    check(parsed("set", [source], parse))
    check(parsed("set", [source], parse))
    assert parse.calls == 1
    assert stored(home).suffix == ".npz"
    assert (
        np.load(stored(home), allow_pickle=False)["names"][1] == "KING_LEAR"
    )  # readable without us


def test_writing_to_what_was_loaded_leaves_the_file_alone(source: Path) -> None:
    parsed("set", [source], Parser())["images"][:] = 0
    check(parsed("set", [source], Parser()))


@pytest.mark.parametrize("change", ["content", "time"])
def test_a_changed_source_is_parsed_again_in_place_of_the_old_copy(
    source: Path, home: Path, change: str
) -> None:
    parse = Parser()
    parsed("set", [source], parse)
    if change == "content":
        source.write_bytes(b"something else")
    else:
        os.utime(source, (1, 1))
    check(parsed("set", [source], parse))
    assert parse.calls == 2
    assert stored(home)  # one copy, not two


def test_each_folder_has_its_own_copy(source: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "source.bin"
    other.parent.mkdir()
    other.write_bytes(source.read_bytes())
    parse = Parser()
    for path in (source, other, source, other):
        parsed("set", [path], parse)
    assert parse.calls == 2


@pytest.mark.parametrize("place", [0.0, 0.02, 0.1, 0.5, 0.9, 0.999])
def test_a_flipped_byte_anywhere_is_found_and_the_copy_rebuilt(
    source: Path, home: Path, place: float
) -> None:
    parse = Parser()
    parsed("set", [source], parse)
    content = bytearray(stored(home).read_bytes())
    content[int(place * len(content))] ^= 0xFF
    stored(home).write_bytes(content)
    check(parsed("set", [source], parse))
    check(parsed("set", [source], parse))
    assert parse.calls <= 2  # a byte of padding or of a date may be flipped without harm


@pytest.mark.parametrize("content", [b"", b"PK", b"\x93NUMPY", b"\x80\x04N.", os.urandom(3000)])
def test_something_else_in_its_place_is_rebuilt(source: Path, home: Path, content: bytes) -> None:
    parse = Parser()
    parsed("set", [source], parse)
    stored(home).write_bytes(content)
    check(parsed("set", [source], parse))
    assert parse.calls == 2


@pytest.mark.parametrize("kept", [0.3, 0.99])
def test_a_truncated_copy_is_rebuilt(source: Path, home: Path, kept: float) -> None:
    parse = Parser()
    parsed("set", [source], parse)
    content = stored(home).read_bytes()
    stored(home).write_bytes(content[: int(kept * len(content))])
    check(parsed("set", [source], parse))
    assert parse.calls == 2


def test_flipped_pixels_are_found(source: Path, home: Path) -> None:
    parsed("set", [source], Parser())
    content = stored(home).read_bytes()
    place = content.index(ARRAYS["images"].tobytes()) + 1000
    stored(home).write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    parse = Parser()
    check(parsed("set", [source], parse))
    assert parse.calls == 1


def test_an_interrupted_write_leaves_nothing(
    source: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cache.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        parsed("set", [source], Parser())
    assert not list((home / "parsed").iterdir())


def test_what_killed_runs_left_is_swept_and_what_others_are_writing_is_not(
    source: Path, home: Path
) -> None:
    folder = home / "parsed"
    folder.mkdir(parents=True)
    old, new = folder / ".set.npz.1.part", folder / ".set.npz.2.part"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    parsed("set", [source], Parser())
    assert not old.exists()
    assert new.exists()


def test_a_disk_that_cannot_be_written_costs_no_run(
    source: Path, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home.write_text("a file where the folder should be")
    check(parsed("set", [source], Parser()))
    assert "cannot keep parsed data" in caplog.text


def test_without_a_folder_the_users_own_is_made_or_the_error_says_which_setting_moves_it(
    home: Path,
) -> None:
    assert data_folder(None) == home
    assert home.is_dir()
    home.rmdir()
    home.write_text("a file where the folder should be")
    with pytest.raises(InputError, match=f"{home} cannot be made.*HEADWATER_DATA"):
        data_folder(None)
