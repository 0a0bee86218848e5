"""Random damage to every file that a run keeps; the same command must mend it or say so."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from tests.soak.trial import Ended, draws, numbers, run

COMMAND = (
    *("run", "synthetic", "--out", "run", "--rounds", "300", "--local-steps", "1"),
    *("--seeds", "2", "--learning-rate", "0.1", "--strategies", "uniform,share-0.5"),
    *("--cores", "1", "--json"),
)


def trial(number: int) -> tuple[str, str]:
    """Damage one file of a finished or unfinished run; verdict and what was done."""
    draw = draws("damage", number)
    finished, unfinished = _folders()
    source = draw.choice((finished, unfinished))
    place = Path(mkdtemp(prefix="soak-"))
    shutil.copytree(source, place, dirs_exist_ok=True)
    files = sorted(p for p in place.rglob("*") if p.is_file())
    file, how = draw.choice(files), draw.choice(list(DAMAGES))
    file.write_bytes(DAMAGES[how](file.read_bytes(), draw))
    ended = run(COMMAND, place)
    what = f"{how} in {file.relative_to(place)} of a{'' if source == finished else 'n un'}finished"
    verdict = _judge(ended, place, finished)
    if verdict in ("fine", "clear error"):
        shutil.rmtree(place)
    return verdict, f"{what}: {ended.err.strip()[-300:]}"


def _judge(ended: Ended, place: Path, truth: Path) -> str:
    if ended.verdict != "fine":
        return ended.verdict
    return "fine" if numbers(place / "run") == numbers(truth / "run") else "silently wrong"


@cache
def _folders() -> tuple[Path, Path]:
    """A finished run and one that was stopped in the middle, made once."""
    finished, unfinished = (Path(mkdtemp(prefix="soak-")) for _ in range(2))
    assert run(COMMAND, finished).code == 0
    for wait in (0.5, 0.2, 0.1, 0.05):
        pid = os.fork()
        if pid == 0:
            os._exit(0 if run(COMMAND, unfinished).code == 0 else 1)
        while not list(unfinished.rglob("rounds.jsonl")):
            time.sleep(0.01)
        time.sleep(wait)
        _terminate_children(pid)
        os.waitpid(pid, 0)
        if list(unfinished.rglob("state.npz")):
            return finished, unfinished
        shutil.rmtree(unfinished / "run")
    return finished, unfinished


def _terminate_children(pid: int) -> None:
    """TERM to the command that a process of ours waits for."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        os.kill(int(child), signal.SIGTERM)


def _flip(content: bytes, draw: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 5))):
        if changed:
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _overwrite(content: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(content) + 1)
    return content[:start] + draw.randbytes(draw.randrange(1, 64)) + content[start + 32 :]


def _swap_lines(content: bytes, draw: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    draw.shuffle(lines)
    return b"".join(lines)


def _double_line(content: bytes, draw: random.Random) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    chosen = draw.randrange(len(lines))
    return b"".join((*lines[: chosen + 1], *lines[chosen:]))


def _drop_line(content: bytes, draw: random.Random) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    del lines[draw.randrange(len(lines))]
    return b"".join(lines)


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "flipped bits": _flip,
    "cut off": lambda content, draw: content[: draw.randrange(len(content) + 1)],
    "random bytes": _overwrite,
    "emptied": lambda content, draw: b"",
    "lines shuffled": _swap_lines,
    "a line twice": _double_line,
    "a line missing": _drop_line,
    "something behind it": lambda content, draw: content + draw.randbytes(20),
}
