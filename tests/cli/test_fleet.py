"""``headwater fleet``: one command up, one down, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from headwater.flower.deployment import broker, processes


def headwater(*words, check=False):
    command = [sys.executable, "-m", "headwater", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=500, check=check)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["up", "--clients", "13"], "--clients: from 1 to 12"),
        (["up", "--clients", "2", "--historical", "3"], "--historical: from 0 to 2"),
        (["up", "--strategy", "best"], "unknown strategy 'best'"),
        (["up", "--per-second", "0"], "--per-second: above 0"),
        (["status"], "there is no fleet here"),
        (["down"], "there is no fleet here"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, words, said):
    done = headwater("fleet", *words, "--folder", str(tmp_path / "fleet"))
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def short_folder():
    """Sockets have short paths: pytest's own folders are too deep for them."""
    with tempfile.TemporaryDirectory(prefix="hw-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def test_a_folder_that_is_too_deep_for_sockets_is_refused_at_once(tmp_path):
    deep = tmp_path / ("deep" * 20)
    done = headwater("fleet", "up", "--folder", str(deep), "--clients", "2")
    assert done.returncode == 2
    assert "bytes too long" in done.stderr
    assert not (deep / "fleet.json").exists()


@pytest.mark.xdist_group("flower")
@pytest.mark.skipif(broker.find() is None, reason="mosquitto is not installed")
def test_a_fleet_comes_up_learns_survives_and_goes_down(short_folder):
    """Broker, SuperLink, nodes, streams; the command, the broker and a node are killed."""
    folder = short_folder / "fleet"
    words = ["fleet", "up", "--folder", str(folder), "--clients", "2", "--per-second", "20"]
    command = subprocess.Popen(
        [sys.executable, "-m", "headwater", *words], stdout=subprocess.DEVNULL
    )
    try:
        wait_for(folder, lambda now: now["round"] >= 2)
        os.kill(command.pid, signal.SIGKILL)  # it cannot clean up
        command.wait()
        parts = {row["name"]: row["pid"] for row in status(folder)["parts"]}
        os.kill(parts["broker"], signal.SIGKILL)
        os.kill(parts["node-Changping"], signal.SIGKILL)
        before = status(folder)
        arrived = before["clients"][1]["arrived"]
        now = wait_for(folder, lambda now: restarted(now) and now["round"] >= before["round"] + 3)
        assert now["clients"][1]["arrived"] > arrived
        assert now["clients"][1]["held"] == 128
        assert now["prequential"]["count"] > 0
    finally:
        done = headwater("fleet", "down", "--folder", str(folder))
    assert "0 left" in done.stdout
    assert processes.members(folder) == []


def restarted(now):
    again = {row["name"] for row in now["parts"] if row["restarts"] and row["alive"]}
    return {"broker", "node-Changping"} <= again


def status(folder):
    done = headwater("fleet", "status", "--folder", str(folder), "--json", check=True)
    return json.loads(done.stdout)


def wait_for(folder, ready, seconds=400):
    deadline = time.monotonic() + seconds
    while True:
        if (folder / "fleet.json").exists() and ready(now := status(folder)):
            return now
        if time.monotonic() > deadline:
            logs = sorted((folder / "logs").glob("*.log"))
            tails = (f"== {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in logs)
            raise AssertionError("\n".join(tails))
        time.sleep(1)
