"""Kills and signals at random moments; in the end the same bits must be there."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from tests.soak.trial import LONGEST, Ended, draws, numbers

COMMAND = (
    *("run", "synthetic", "--out", "run", "--rounds", "400", "--local-steps", "1"),
    *("--seeds", "3", "--learning-rate", "0.1", "--strategies", "uniform,share-0.5"),
    *("--cores", "2", "--json"),
)
WAYS = ("kill", "kill", "kill a worker", "TERM", "Ctrl-C")


def trial(number: int) -> tuple[str, str]:
    """Disturb a run a few times, then let it end; verdict and what was done."""
    draw = draws("kills", number)
    place = Path(mkdtemp(prefix="soak-"))
    told = []
    for _ in range(draw.choice((1, 2, 3))):
        way, after = draw.choice(WAYS), draw.uniform(0.0, 8.0)
        ended, left = _disturb(place, way, after, draw)
        told.append(f"{way} after {after:.2f} s")
        if ended.verdict in ("traceback", "stuck") and ended.code != -signal.SIGKILL:
            return ended.verdict, f"{', '.join(told)}: {ended.err[-300:]}"
        if left:
            return "stuck", f"{', '.join(told)}: processes {left} are still there"
    ended = _start(place).finish()
    verdict = ended.verdict
    if verdict == "fine" and numbers(place / "run") != numbers(_whole() / "run"):
        verdict = "silently wrong"
    if verdict == "clear error":
        verdict = "stuck"  # nothing was damaged: the same command has to go on
    if list(place.rglob(".*.????????")):
        verdict, ended = "silently wrong", Ended(ended.code, "", "temporary files are left")
    if verdict == "fine":
        shutil.rmtree(place)
    return verdict, f"{', '.join(told)}: {ended.err.strip()[-300:]}"


class _start:
    """The command as a process of its own, imports and all."""

    def __init__(self, place: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headwater", *COMMAND],
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self) -> Ended:
        try:
            out, err = self.process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return Ended(None, "", "")
        return Ended(self.process.returncode, out, err)


def _disturb(place: Path, way: str, after: float, draw: random.Random) -> tuple[Ended, list[int]]:
    """How it ended, and which of its processes outlived it."""
    began = _start(place)
    time.sleep(after)
    workers = _children(began.process.pid)
    if way == "kill a worker":
        if workers:
            os.kill(draw.choice(workers), signal.SIGKILL)
    elif began.process.poll() is None:
        number = {"kill": signal.SIGKILL, "TERM": signal.SIGTERM, "Ctrl-C": signal.SIGINT}[way]
        began.process.send_signal(number)
    ended = began.finish()
    if way != "kill" and ended.code in (-signal.SIGTERM, -signal.SIGINT) and after < 0.5:
        ended = Ended(130, "", "stopped")  # Python itself was not there yet
    latest = time.monotonic() + 10
    while (left := [pid for pid in workers if _alive(pid)]) and time.monotonic() < latest:
        time.sleep(0.02)
    return ended, left


def _children(pid: int) -> list[int]:
    try:
        return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@cache
def _whole() -> Path:
    """The same run without any disturbance, made once."""
    place = Path(mkdtemp(prefix="soak-"))
    assert _start(place).finish().code == 0
    return place
