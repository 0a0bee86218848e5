"""Which processes are alive, from /proc."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

PATIENCE = 60  # seconds after which a process that is still there is called a failure
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="looks processes up in /proc"
)


def alive(pid):
    """Is the process there and not merely waiting for init to clear it away?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(*pids, patience=PATIENCE):
    """Wait until none of them is alive; False: one still is."""
    deadline = time.monotonic() + patience
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(alive(pid) for pid in pids)
