"""The documents build as one site, and every warning is an error (``strict`` in mkdocs.yml)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_of_the_folder_is_in_the_site(site: Path) -> None:
    left_out = {"results/remarks", "results/cells"}
    pages = [p.relative_to(ROOT / "docs") for p in (ROOT / "docs").rglob("*.md")]
    shown = [p for p in pages if p.parent.as_posix() not in left_out]
    assert len(shown) > 8
    missing = [p for p in shown if not _built(site, p).exists()]
    assert not missing


def test_the_reference_shows_docstrings_with_their_examples(site: Path) -> None:
    text = (site / "reference" / "ledger.html").read_text()
    assert "All samples are there before round 1" in text
    assert ":meth:" not in text


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    """A reader without internet sees what a reader with internet sees."""
    loaded = re.compile(
        r"<(?:script|img|iframe)[^>]*src=[\"\']?https?://|<link[^>]*stylesheet[^>]*https?://"
    )
    guilty = [page.name for page in site.rglob("*.html") if loaded.search(page.read_text())]
    assert not guilty


def _built(site: Path, page: Path) -> Path:
    name = "index" if page.name == "README.md" else page.stem
    return site / page.parent / f"{name}.html"
