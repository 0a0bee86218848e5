"""Processes that can be found and ended again, whoever started them and however that one died.

Every process of a fleet carries the fleet's folder and its part's name in its environment, and so
do all its children, whatever process group or session they make for themselves. So a fleet can be
ended completely from its folder alone, also after the command that started it was killed with no
chance to clean up; and a part that is started again first ends what its predecessor left behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MARK = "HEADWATER_FLEET"
PART = "HEADWATER_PART"
_PATIENCE = 10.0  # seconds between asking a process to end and ending it


@dataclass(frozen=True)
class Part:
    """One process of a fleet.

    Attributes:
        name: what it is, as in "superlink" or "node-3".
        pid: its process id.
        log: where its output goes.
        process: the same, for who started it.
    """

    name: str
    pid: int
    log: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        """Is it still there? A zombie is not."""
        if self.process is not None:
            return self.process.poll() is None  # and if it ended, no zombie is left
        return _state(self.pid) not in ("", "Z")

    @property
    def done(self) -> bool:
        """Did it end as it should? Only who started it can know."""
        return self.process is not None and self.process.poll() == 0


def launch(
    folder: Path, name: str, command: Sequence[str | Path], environment: Mapping[str, str]
) -> Part:
    """Start a process in a session of its own, its output in ``folder/logs/name.log``.

    Whatever is left of a part of this name is ended first: Flower's helpers outlive a SuperNode
    that was killed, and an old server would keep the run's folder locked.
    """
    while left := members(folder, name):
        _signal(left, signal.SIGKILL)
        time.sleep(0.02)
    _reap()
    log = folder / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment) | {MARK: str(folder), PART: name},
            start_new_session=True,
            cwd=folder,
        )
    _CHILDREN[process.pid] = process
    return Part(name, process.pid, log, process)


def environment(folder: Path) -> dict[str, str]:
    """What a fleet's parts need: this interpreter's programs, Flower's folder, no telemetry."""
    programs = str(Path(sys.executable).parent)
    own = {
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}",
        "FLWR_HOME": str(folder / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "PYTHONUNBUFFERED": "1",
    }
    return dict(os.environ) | own


def members(folder: Path, part: str | None = None) -> list[int]:
    """The ids of a fleet's living processes, of one part or of all, except the one that asks."""
    marks = {f"{MARK}={folder}".encode()} | ({f"{PART}={part}".encode()} if part else set())
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):  # it ended meanwhile, or is somebody else's
                if marks <= set((entry / "environ").read_bytes().split(b"\0")):
                    found.append(int(entry.name))
    return sorted(pid for pid in found if _state(pid) not in ("", "Z"))


def end(folder: Path, patience: float = _PATIENCE) -> int:
    """End all processes of a fleet: ask first, then insist; says how many there were."""
    first = members(folder)
    _signal(first, signal.SIGTERM)
    deadline = time.monotonic() + patience
    while members(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    # Whoever is left may be starting another one right now: go on until a look finds nobody.
    while left := members(folder):
        _signal(left, signal.SIGKILL)
        time.sleep(0.05)
    _reap()
    return len(first)


def kill(pid: int) -> None:
    """End one process at once, as a crash would."""
    _signal([pid], signal.SIGKILL)
    _reap()


_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}


def _reap() -> None:
    """Children of this process that have ended stay zombies until somebody asks for them."""
    for pid, process in list(_CHILDREN.items()):
        if process.poll() is not None:
            _CHILDREN.pop(pid, None)


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _state(pid: int) -> str:
    """The state letter of a process (R, S, Z, …); empty if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The second field is the program's name in parentheses and may hold anything, also blanks.
    return text.rpartition(")")[2].split()[0]
