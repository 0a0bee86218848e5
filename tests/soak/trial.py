"""One trial: a command in a process of its own, and what is to be thought of how it ended."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERDICTS = ("fine", "clear error", "traceback", "silently wrong", "stuck")
BAD = VERDICTS[2:]
LONGEST = 120.0  # seconds after which a small command counts as stuck


@dataclass(frozen=True)
class Ended:
    """How a command has ended.

    Attributes:
        code: its exit code; below zero, the signal that has killed it; None if it never ended.
        out: standard output.
        err: standard error.
    """

    code: int | None
    out: str
    err: str

    @property
    def verdict(self) -> str:
        """By exit code and words alone; whether the numbers are right is another question."""
        if self.code is None:
            return "stuck"
        if "Traceback" in self.err or self.code not in (0, 1, 2, 130, 143):
            return "traceback"
        if self.code == 0:
            return "fine"
        # click says "Usage: …" and "Error" in a frame for options that it refuses itself
        clear = any(word in self.err for word in ("error:", "Error", "stopped", "Usage"))
        return "clear error" if clear else "traceback"


def run(arguments: Sequence[str], folder: Path, longest: float = LONGEST) -> Ended:
    """The command in a forked process: what is imported already need not be imported again."""
    with tempfile.TemporaryDirectory() as place:
        files = [Path(place) / name for name in ("out", "err")]
        pid = os.fork()
        if pid == 0:
            _become(arguments, folder, files)
        code = _wait(pid, longest)
        out, err = (file.read_text(errors="replace") for file in files)
    return Ended(code, out, err)


def _become(arguments: Sequence[str], folder: Path, files: Sequence[Path]) -> None:
    """Be the command, and end with it."""
    code = 70
    try:
        os.setsid()  # what it leaves behind can be found, and ended, as a group
        os.chdir(folder)
        for number, file in enumerate(files, 1):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        sys.argv = ["headwater", *arguments]
        from headwater.cli import main

        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException:
            import traceback

            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _wait(pid: int, longest: float) -> int | None:
    latest = time.monotonic() + longest
    while time.monotonic() < latest:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def numbers(folder: Path) -> Any:
    """What a run folder says came out, seconds apart."""
    rows = json.loads((folder / "results.json").read_text())["rows"]
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


def draws(kind: str, trial: int) -> random.Random:
    """The random numbers of a trial; the same whenever it is repeated."""
    return random.Random(f"{kind} {trial}")
