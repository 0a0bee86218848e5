"""The supervisor of a fleet: what it does about parts that die and a disk that is full."""

from __future__ import annotations

import errno
import json
import logging
import sys
import time
from pathlib import Path

import pytest

from headwater.flower.deployment import processes, supervisor
from headwater.flower.deployment.layout import Fleet
from headwater.flower.deployment.supervisor import Supervisor


@pytest.fixture
def keeper(tmp_path, monkeypatch):
    """A supervisor without Flower: its run is always at work."""
    keeper = Supervisor(Fleet(tmp_path, ("a",), secure=False))
    monkeypatch.setattr(keeper, "_watch_run", lambda: None)
    yield keeper
    processes.end(tmp_path, patience=0.0)


def starter(keeper, name, code="import time; time.sleep(600)"):
    """How to start a part that does this."""
    folder = keeper.fleet.folder
    command = [sys.executable, "-c", code]
    return lambda: processes.launch(folder, name, command, processes.environment(folder))


def parts(keeper):
    return json.loads((keeper.fleet.folder / "parts.json").read_text())


class Disk:
    """A disk that can be full, and counts what is written to it."""

    def __init__(self, monkeypatch):
        self.full, self.written, self._replace = False, 0, supervisor.replace
        monkeypatch.setattr(supervisor, "replace", self.replace)

    def replace(self, path, content):
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        self.written += 1
        self._replace(path, content)


def test_parts_are_written_when_they_change_and_a_full_disk_is_survived(
    keeper, monkeypatch, caplog
):
    disk = Disk(monkeypatch)
    keeper._keep("one", starter(keeper, "one"))
    for _ in range(3):
        keeper.watch()
    assert disk.written == 1
    disk.full = True
    keeper._keep("two", starter(keeper, "two"))
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            keeper.watch()
    assert [row["name"] for row in parts(keeper)] == ["one"]
    assert caplog.text.count("No space left") == 1
    disk.full = False
    keeper.watch()
    assert [row["name"] for row in parts(keeper)] == ["one", "two"]


def test_a_part_that_cannot_be_started_for_lack_of_space_is_tried_again(keeper, monkeypatch):
    monkeypatch.setattr(supervisor, "_BACK_OFF", (0.0, 0.0))
    start, full = starter(keeper, "one"), []

    def start_if_there_is_space():
        if full:
            raise OSError(full.pop(), "No space left on device")
        return start()

    keeper._keep("one", start_if_there_is_space)
    kill(keeper, "one")
    full.append(errno.ENOSPC)
    until(lambda: (keeper.watch(), keeper._kept["one"].part.alive)[1])
    assert not full
    assert keeper._kept["one"].restarts == 2


def test_parts_that_ended_are_not_left_as_zombies(keeper):
    keeper._keep("one", starter(keeper, "one", "pass"))
    pid = keeper._kept["one"].part.pid
    until(lambda: (keeper.watch(), not Path(f"/proc/{pid}").exists())[1])


@pytest.mark.parametrize(("code", "again"), [("pass", 0), ("raise SystemExit(3)", 1)])
def test_a_feeder_is_started_again_unless_all_is_fed(keeper, monkeypatch, code, again):
    monkeypatch.setattr(supervisor, "_BACK_OFF", (0.0, 0.0))
    keeper._keep("one", starter(keeper, "one"))
    keeper._keep("feeder", starter(keeper, "feeder", code))
    feeder = keeper._kept["feeder"]
    until(lambda: not feeder.part.alive)
    keeper.watch()
    assert feeder.restarts == again
    assert [row["name"] for row in parts(keeper)] == ["one", "feeder"][: 1 + again]


def test_a_part_that_lived_for_minutes_is_started_again_soon(keeper, monkeypatch):
    """Its restarts are still told; only the waiting begins anew."""
    keeper._keep("one", starter(keeper, "one"))
    kept, waits = keeper._kept["one"], []
    for lived in (0, 0, 0, 1000, 0):
        kept.since -= lived
        kill(keeper, "one")
        keeper.watch()
        waits.append(round(kept.due - time.monotonic()))
        kept.due = time.monotonic()  # that time has passed
        keeper.watch()
        assert kept.part.alive
    assert waits == [1, 2, 4, 1, 2]
    assert parts(keeper)[0]["restarts"] == 5


def kill(keeper, name):
    part = keeper._kept[name].part
    processes.kill(part.pid)
    until(lambda: not part.alive)


def until(ready, seconds=20):
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)
