"""A run folder belongs to one command at a time, and is free the moment its holder is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.errors import InputError
from headwater.experiments.run_folder import alone

HOLD = """
import os, sys, time
from pathlib import Path
from headwater.experiments.run_folder import alone
with alone(Path(sys.argv[1])):
    if len(sys.argv) > 2 and os.fork() == 0:
        time.sleep(600)  # a worker that outlives its parent
    print(os.getpid(), flush=True)
    time.sleep(600)
"""


def hold(folder: Path, *more: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), *more], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_only_one_run_at_a_time_in_a_folder(tmp_path: Path) -> None:
    refused = pytest.raises(InputError, match="at work there")
    with alone(tmp_path / "a"), alone(tmp_path / "b"), refused, alone(tmp_path / "a"):
        pass
    with alone(tmp_path / "a"):
        pass


def test_who_is_there_is_named_with_pid_and_time(tmp_path: Path) -> None:
    process = hold(tmp_path / "a")
    try:
        words = rf"process {process.pid} since \d\d\d\d-.*kill {process.pid}, or take another"
        with pytest.raises(InputError, match=words), alone(tmp_path / "a"):
            pass
    finally:
        process.kill()
        process.wait()
    with alone(tmp_path / "a"):
        pass


def test_a_child_that_outlives_the_holder_does_not_keep_the_folder(tmp_path: Path) -> None:
    process = hold(tmp_path / "a", "with a child")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.wait()
    try:
        with alone(tmp_path / "a"):
            pass
    finally:
        for child in children:
            os.kill(int(child), signal.SIGKILL)


def test_a_file_where_a_folder_is_due_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="file is a file"), alone(folder):
            pass
    assert (tmp_path / "file").read_text() == "mine"


def test_a_damaged_lock_file_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / ".a.lock").write_bytes(b"\xff{")
    with alone(tmp_path / "a"):
        pass
