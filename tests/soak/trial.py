"""One trial: a command in a process of its own, and what is to be thought of how it ended."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from headwater.errors import InputError

VERDICTS = ("fine", "clear error", "traceback", "silently wrong", "stuck")
BAD = VERDICTS[2:]
LONGEST = 600.0  # seconds after which a small command counts as stuck, on a busy machine too
_OFTEN = 0.05  # seconds between two states of a run, so that even a short one has many


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


class Command:
    """A command under way, in a session and with output files of its own."""

    def __init__(self, arguments: Sequence[str], folder: Path, fresh: bool = False) -> None:
        """Start it.

        Args:
            arguments: behind ``headwater``.
            folder: where it runs.
            fresh: as a new Python, which imports everything; otherwise it is forked from this
                process, which has.
        """
        warm()
        self._place = tempfile.TemporaryDirectory()
        self._files = [Path(self._place.name) / name for name in ("out", "err")]
        self.began = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            _become(arguments, folder, self._files, fresh)

    def children(self) -> list[int]:
        """Its workers at this moment."""
        try:
            listed = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return []
        return [int(child) for child in listed.split()]

    def finish(self, longest: float = LONGEST) -> Ended:
        """Wait for its end, and force it if it takes too long."""
        code = _wait(self.pid, longest)
        out, err = (f.read_text(errors="replace") if f.exists() else "" for f in self._files)
        self._place.cleanup()
        return Ended(code, out, err)


def run(arguments: Sequence[str], folder: Path, longest: float = LONGEST) -> Ended:
    """A command from beginning to end."""
    return Command(arguments, folder).finish(longest)


def tried(action: Callable[[], object], what: str, truth: object = None) -> tuple[str, str]:
    """The verdict on a call in this process.

    Args:
        action: what is called.
        what: its name in messages.
        truth: what it has to give, if it gives anything; None: whatever it likes.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = action()
    except InputError as error:
        return "clear error", f"{what}: {error}"
    except Exception:
        return "traceback", f"{what}: {traceback.format_exc()[-400:]}"
    return "fine" if truth is None or found == truth else "silently wrong", what


@cache
def warm() -> None:
    """Import what commands import, once: a forked command then begins at its first own line."""
    import matplotlib.pyplot  # noqa: F401
    import numpy as np
    import torch

    import headwater as hw
    from headwater.cli import main  # noqa: F401
    from headwater.devices.node import summary  # noqa: F401
    from headwater.experiments import comparison  # noqa: F401
    from headwater.experiments.tasks import own_table, synthetic  # noqa: F401
    from headwater.learning import checkpoint
    from headwater.report import plan_pictures, run  # noqa: F401

    checkpoint._SECONDS = _OFTEN
    # What PyTorch itself imports late, it imports in the first run.
    x = np.zeros((4, 2))
    hw.simulate(torch.nn.Linear(2, 2), [hw.Client(x, np.array([0, 1, 0, 1]))], rounds=1)


def _become(arguments: Sequence[str], folder: Path, files: Sequence[Path], fresh: bool) -> None:
    """Be the command, and end with it."""
    code = 70
    try:
        os.setsid()  # what it leaves behind can be found, and ended, as a group
        os.chdir(folder)
        for number, file in enumerate(files, 1):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
        if fresh:
            os.execv(sys.executable, [sys.executable, "-m", "headwater", *arguments])
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        sys.argv = ["headwater", *arguments]
        from headwater.__main__ import main

        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException:
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
