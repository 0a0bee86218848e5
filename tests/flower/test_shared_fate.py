"""A SuperLink ends with its helper flower-superexec, and so can be started again."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from headwater.flower.deployment.processes import end, kill, members
from headwater.flower.deployment.superlink import SuperLink, free_port

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says which child has ended")
PROGRAM = """
import subprocess, time
from headwater.flower.shared_fate import end_with_helper

end_with_helper()
child = subprocess.Popen([{program!r}, "600"])
subprocess.run(["true"])  # children come and go; this one says nothing
print(child.pid, flush=True)
while True:
    time.sleep(600)
"""


def parent_of(program):
    """A process with a child of this name, and the child's number."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(program=str(program))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, int(process.stdout.readline())


@LINUX
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_end_of_the_helper_is_its_parents(tmp_path, number):
    helper = tmp_path / "flower-superexec"
    shutil.copy(shutil.which("sleep"), helper)
    process, child = parent_of(helper)
    subprocess.run(["kill", f"-{int(number)}", str(child)], check=True)
    assert process.wait(30) == -signal.SIGTERM
    assert "flower-superexec has ended" in process.stderr.read()


@LINUX
def test_another_childs_end_says_nothing():
    process, child = parent_of(shutil.which("sleep"))
    kill(child)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    process.kill()
    process.wait()


@LINUX
@pytest.mark.xdist_group("flower")
def test_flowers_own_superlink_does_not_live_on_without_its_helper():
    with tempfile.TemporaryDirectory(prefix="hw-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            part = SuperLink(folder, free_port(), None).start()
            (helper,) = (pid for pid in members(folder) if pid != part.pid)
            kill(helper)
            deadline = time.monotonic() + 60
            while part.alive and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not part.alive
            assert "flower-superexec has ended" in part.log.read_text()
        finally:
            end(folder)
