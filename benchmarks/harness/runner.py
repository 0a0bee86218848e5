"""A contender's process as seen from outside: start it, ask for rounds, let it sleep, end it."""

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness import memory
from benchmarks.harness.environments import reason

ROOT = Path(__file__).parents[2]


class Failure(Exception):
    """A contender could not do what it was asked; says why in one line."""


def environment() -> dict[str, str]:
    """This one, in which Python keeps what it compiled: an installed package is compiled, too."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


class Runner:
    """Starts the command at once; what it prints besides its answers goes to the log."""

    def __init__(self, command: list[str], variables: Mapping[str, str], log: Path) -> None:
        self.log = log
        self.started = time.perf_counter()
        self._heard = b""
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**environment(), **variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def versions(self, patience: float) -> dict[str, str]:
        """Wait until it is ready; the versions of its packages."""
        found: dict[str, str] = self._hear(patience)["versions"]
        return found

    def rounds(self, number: int, patience: float, save: Path | None = None) -> list[float]:
        """Let it do that many rounds; the seconds of each. The model after the last is saved on
        request."""
        self._tell({"rounds": number, "save": str(save) if save else None})
        seconds: list[float] = self._hear(patience)["seconds"]
        return seconds

    def pause(self) -> None:
        """Put the whole tree of processes to sleep, so that idle loops do not disturb the
        others."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Wake it up."""
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        """Ask it to end; after a while, end what is left of its tree."""
        self.resume()
        family = {pid: memory.born(pid) for pid in memory.tree(self.process.pid)}
        with contextlib.suppress(Failure):
            self._tell({"rounds": 0})
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(15)
        for pid, birth in family.items():
            if birth is not None and memory.born(pid) == birth:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def _signal(self, number: signal.Signals) -> None:
        for pid in memory.tree(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _tell(self, command: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failure(reason(self.log.read_text())) from None

    def _hear(self, patience: float) -> dict[str, Any]:
        """The next answer; lines that are none are passed over."""
        end = time.perf_counter() + patience
        while True:
            line = self._line(end, patience)
            if line.startswith(b"{"):
                answer: dict[str, Any] = json.loads(line)
                return answer

    def _line(self, end: float, patience: float) -> bytes:
        assert self.process.stdout is not None
        while b"\n" not in self._heard:
            ready, _, _ = select.select(
                [self.process.stdout], [], [], max(0.0, end - time.perf_counter())
            )
            if not ready:
                raise Failure(f"no answer within {patience:.0f} s")
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            if not part:
                raise Failure(reason(self.log.read_text()))
            self._heard += part
        line, _, self._heard = self._heard.partition(b"\n")
        return line
