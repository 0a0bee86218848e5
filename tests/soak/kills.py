"""Kills and signals at random moments; in the end the same bits must be there."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from tests.soak.trial import Command, Ended, draws, numbers

COMMAND = (
    *("run", "synthetic", "--out", "run", "--rounds", "400", "--local-steps", "1"),
    *("--seeds", "1", "--learning-rate", "0.1", "--strategies", "uniform,remembered"),
    *("--cores", "2", "--json"),
)
WAYS = ("kill", "kill", "kill", "kill a worker", "TERM", "Ctrl-C")
_FRESH = 0.1  # the part of the trials in which Python starts anew each time, imports and all
_SIGNALS = {"kill": signal.SIGKILL, "TERM": signal.SIGTERM, "Ctrl-C": signal.SIGINT}


def trial(number: int) -> tuple[str, str]:
    """Disturb a run a few times, then let it end; verdict and what was done.

    A moment is a fraction of the time that the run takes if nothing disturbs it.
    """
    draw = draws("kills", number)
    fresh = draw.random() < _FRESH
    place = Path(mkdtemp(prefix="soak-"))
    told = ["a new Python each time"] if fresh else []
    for _ in range(draw.choice((1, 2, 3))):
        way, after = draw.choice(WAYS), 1.1 * draw.random() * _whole(fresh)[1]
        ended, left = _disturb(place, way, after, draw, fresh)
        told.append(f"{way} after {after:.2f} s")
        if ended.verdict in ("traceback", "stuck") and ended.code != -signal.SIGKILL:
            return ended.verdict, f"{', '.join(told)}: {ended.err[-300:]}"
        if left:
            return "stuck", f"{', '.join(told)}: processes {left} are still there"
    verdict, why = _end(place, fresh)
    return verdict, f"{', '.join(told)}: {why}"


def _end(place: Path, fresh: bool) -> tuple[str, str]:
    """Let the same command end, and look at what there is then."""
    ended = Command(COMMAND, place, fresh).finish()
    if ended.verdict == "clear error":
        return "stuck", ended.err[-300:]  # nothing was damaged: the same command has to go on
    if ended.verdict != "fine":
        return ended.verdict, ended.err[-300:]
    if numbers(place / "run") != numbers(_whole(fresh)[0] / "run"):
        return "silently wrong", f"other numbers in {place}"
    if left := list(place.rglob(".*.????????")):
        return "silently wrong", f"temporary files are left: {left}"
    shutil.rmtree(place)
    return "fine", ""


def _disturb(
    place: Path, way: str, after: float, draw: random.Random, fresh: bool
) -> tuple[Ended, list[int]]:
    """How it ended, and which of its processes outlived it."""
    command = Command(COMMAND, place, fresh)
    time.sleep(max(0.0, command.began + after - time.monotonic()))
    workers = command.children()
    target = command.pid if way in _SIGNALS else draw.choice(workers) if workers else None
    if target is not None:
        with suppress(ProcessLookupError):
            os.kill(target, _SIGNALS.get(way, signal.SIGKILL))
    ended = command.finish()
    if way in ("TERM", "Ctrl-C") and _only_python(ended):
        ended = Ended(130, "", "stopped")
    latest = time.monotonic() + 10
    while (left := [pid for pid in workers if _alive(pid)]) and time.monotonic() < latest:
        time.sleep(0.02)
    return ended, left


def _only_python(ended: Ended) -> bool:
    """Whether a signal came before our first line or after our last one.

    Then there is nobody who could answer but Python itself, which dies of it.
    """
    died = ended.code in (-signal.SIGTERM, -signal.SIGINT)
    startled = ended.err.strip().endswith("KeyboardInterrupt") and "headwater/" not in ended.err
    finished = ended.out.rstrip().endswith("}")
    return startled or (died and (finished or not ended.err.strip()))


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@cache
def _whole(fresh: bool) -> tuple[Path, float]:
    """The same run without any disturbance, made once, and the seconds that it took."""
    place = Path(mkdtemp(prefix="soak-"))
    command = Command(COMMAND, place, fresh)
    ended = command.finish()
    assert ended.code == 0, ended.err
    return place, time.monotonic() - command.began
