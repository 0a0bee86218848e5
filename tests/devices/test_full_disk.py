"""A file system that is really full: a node on a megabyte of its own, filled and emptied."""

from __future__ import annotations

import subprocess

import pytest
from intakes import Taking, held
from nodes import node_settings
from test_sources import append, lines

from headwater.devices.memory.database import Database


@pytest.fixture
def disk(tmp_path):
    """A small disk; mounting one takes the rights to."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if mounted.returncode:
        pytest.skip(f"a file system of one's own cannot be mounted: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def settings(disk, on_full_disk="wait", **source):
    """A node on the small disk whose stream lies on another one."""
    path = disk.parent / "s.ndjson"
    memory = {"rule": "keep", "on_full_disk": on_full_disk}
    return node_settings(disk, source={"kind": "lines", "path": path, **source}, memory=memory)


def occupy(disk, left=200_000):
    """Somebody else's file that leaves little room."""
    (disk / "other").write_bytes(b"\0" * ((1 << 20) - left))


def check_sound(disk):
    database = Database(disk / "memory.db")
    assert database.rows("PRAGMA integrity_check") == [("ok",)]
    database.close()


def test_the_stream_waits_and_goes_on_when_there_is_room(disk, monkeypatch):
    monkeypatch.setattr("headwater.devices.node.stream._RETRY", 0.01)
    occupy(disk)
    append(disk.parent / "s.ndjson", lines(*range(3000)))
    with Taking(settings(disk)) as taking:
        taking.until(lambda _: taking.stream.waiting_for_disk)
        assert taking.intake.memory.arrived < 3000
        (disk / "other").unlink()
        taking.until_arrived(3000)
        assert held(taking.intake) == list(range(3000))
        assert taking.stream.dropped == 0
    check_sound(disk)


def test_the_stream_drops_and_says_how_much(disk):
    occupy(disk)
    append(disk.parent / "s.ndjson", lines(*range(3000)))
    with Taking(settings(disk, "drop", follow=False)) as taking:
        taking.until_ended()
        kept = held(taking.intake)
        assert 0 < len(kept) < 3000
        assert taking.stream.dropped == 3000 - len(kept)
        assert kept == sorted(set(kept))
    check_sound(disk)
