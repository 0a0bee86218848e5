"""Folders for data that nobody else sees."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's cache folder."""
    folder = tmp_path / "home"
    monkeypatch.setenv("HEADWATER_DATA", str(folder))
    yield folder
    # Real data are large, and pytest keeps what is left of three runs.
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """What is given as the data folder."""
    folder = tmp_path / "data"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)
