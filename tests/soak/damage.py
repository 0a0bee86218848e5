"""Random damage to every file that a run keeps; what reads it must mend it or say so."""

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

from tests.soak.simulation import facts, simulated
from tests.soak.trial import Command, draws, numbers, run, tried

import headwater as hw

COMMAND = (
    *("run", "synthetic", "--out", "run", "--rounds", "300", "--local-steps", "1"),
    *("--seeds", "1", "--learning-rate", "0.1", "--strategies", "uniform"),
    *("--cores", "1", "--json"),
)


def trial(number: int) -> tuple[str, str]:
    """Damage one file of a folder, and use the folder; verdict and what was done."""
    draw = draws("damage", number)
    source, use = draw.choice(
        (
            (_finished, _command),
            (_unfinished, _command),
            (_checkpoint, _goes_on),
            (_saved, _loaded),
        )
    )
    place = Path(mkdtemp(prefix="soak-"))
    shutil.copytree(source(), place, dirs_exist_ok=True)
    files = sorted(p for p in place.rglob("*") if p.is_file())
    file, how = draw.choice(files), draw.choice(list(DAMAGES))
    file.write_bytes(DAMAGES[how](file.read_bytes(), draw))
    what = f"{how} in {file.relative_to(place)} of {source.__name__.strip('_')}"
    verdict, why = use(place)
    if verdict in ("fine", "clear error"):
        shutil.rmtree(place)
    return verdict, f"{what}: {why}"


def _command(place: Path) -> tuple[str, str]:
    """The same command again."""
    ended = run(COMMAND, place)
    verdict = ended.verdict
    if verdict == "fine" and numbers(place / "run") != numbers(_finished() / "run"):
        verdict = "silently wrong"
    return verdict, ended.err.strip()[-300:]


def _goes_on(place: Path) -> tuple[str, str]:
    """The same simulation again."""
    return tried(lambda: facts(simulated(place)), "simulate", facts(simulated()))


def _loaded(place: Path) -> tuple[str, str]:
    return tried(lambda: facts(hw.load_run(place)), "load_run", facts(simulated()))


@cache
def _finished() -> Path:
    """A run folder of a command that has ended."""
    place = Path(mkdtemp(prefix="soak-"))
    ended = run(COMMAND, place)
    assert ended.code == 0, ended.err
    return place


@cache
def _unfinished() -> Path:
    """A run folder of a command that was stopped between two rounds."""
    for _ in range(20):
        place = Path(mkdtemp(prefix="soak-"))
        command = Command(COMMAND, place)
        while not list(place.rglob("state.npz")) and time.monotonic() < command.began + 60:
            time.sleep(0.005)
        os.kill(command.pid, signal.SIGTERM)
        command.finish()
        if list(place.rglob("state.npz")):
            return place
    raise AssertionError("the command never left a state behind")


@cache
def _checkpoint() -> Path:
    """The folder of a simulation that was stopped after round 7."""
    place = Path(mkdtemp(prefix="soak-"))

    def stop(record: hw.Record) -> None:
        if record.round == 7:
            raise KeyboardInterrupt

    try:
        simulated(place, stop)
    except KeyboardInterrupt:
        return place
    raise AssertionError("it was to be stopped")


@cache
def _saved() -> Path:
    """What ``run.save`` writes."""
    place = Path(mkdtemp(prefix="soak-"))
    simulated().save(place)
    return place


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
