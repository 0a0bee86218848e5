"""Folders for data that nobody else sees, and the real data where they are."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[4] / "shared" / "data"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's cache folder."""
    folder = tmp_path / "home"
    monkeypatch.setenv("HEADWATER_DATA", str(folder))
    yield folder
    shutil.rmtree(
        folder, ignore_errors=True
    )  # real data are large, and pytest keeps what is left of three runs


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """What is given as the data folder."""
    folder = tmp_path / "data"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"the real data are not in {SHARED}")
    return SHARED
