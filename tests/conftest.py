"""Tests that need whole data sets are skipped where those are not, and the end says how many."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ORIGINALS = Path(
    os.environ.get("HEADWATER_ORIGINALS") or Path(__file__).parents[2] / "shared" / "data"
)
"""A folder with the whole data sets, as ``tests/support/real_slices.py`` reads them."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("needs_data") and not ORIGINALS.is_dir():
        pytest.skip(
            f"the whole data sets are not in {ORIGINALS}; HEADWATER_ORIGINALS names another"
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests did not run for want of data: a skip is a hole, and is to be seen."""
    skipped = terminalreporter.stats.get("skipped", [])
    without = [report for report in skipped if "needs_data" in report.keywords]
    if without:
        reason = without[0].longrepr[2].removeprefix("Skipped: ")
        terminalreporter.write_line(f"{len(without)} tests marked needs_data did not run: {reason}")


@pytest.fixture
def shared() -> Path:
    """The whole data sets; for tests that are marked ``needs_data``."""
    return ORIGINALS
