"""The systemd units of the server's side and of SuperNodes start what they say."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "docs" / "systemd"
COMMANDS = {
    "headwater-superlink.service": ["python", "-m", "headwater.flower.superlink"],
    "headwater-supernode@.service": ["python", "-m", "headwater.flower.supernode"],
    "headwater-run.service": ["flwr", "run"],
}


def unit(name):
    """A unit's settings; lines that go on in the next are joined first."""
    found = configparser.RawConfigParser(strict=False, comment_prefixes=("#",))
    found.optionxform = str
    found.read_string(re.sub(r"\\\n\s*", "", (UNITS / name).read_text()))
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_a_unit_starts_a_program_with_options_that_it_has(name, tmp_path):
    words = COMMANDS[name]
    start = unit(name)["Service"]["ExecStart"]
    assert start.startswith("/opt/headwater/bin/" + " ".join(words))
    program = Path(sys.executable).parent / words[0]
    quiet = {"FLWR_HOME": str(tmp_path), "FLWR_TELEMETRY_ENABLED": "0", "COLUMNS": "200"}
    done = subprocess.run(
        [program, *words[1:], "--help"],
        env=os.environ | quiet | {"FLWR_DISABLE_UPDATE_CHECK": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    for option in re.findall(r"--[a-z][a-z-]+", start):
        assert option in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_a_unit_runs_as_nobody_special_and_comes_back(name):
    service = unit(name)["Service"]
    assert service["User"] == "headwater"
    assert service["UMask"] == "0077"
    assert service["Restart"] == "always"
    assert "FLWR_TELEMETRY_ENABLED=0" in (UNITS / name).read_text()
    assert "--insecure" not in service["ExecStart"]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
@pytest.mark.parametrize("name", COMMANDS)
def test_systemd_reads_the_unit(name):
    done = subprocess.run(
        ["systemd-analyze", "verify", str(UNITS / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    # The programs are not where the unit expects them, and the others are not installed.
    strange = [
        line
        for line in done.stderr.splitlines()
        if name in line and "is not executable" not in line and "not found" not in line
    ]
    assert not strange
