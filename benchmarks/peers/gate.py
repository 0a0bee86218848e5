"""Between two rounds: how a runner is told what to do and says how long it took.

Commands come as JSON lines on standard input: ``{"rounds": 3, "save": "model.npz"}`` or
``{"rounds": 0}`` to end.
The answer to each is one JSON line on standard output: the seconds of every round. Whatever a
library prints goes to standard error, so that it cannot be taken for an answer.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from typing import Any

import numpy as np


class Finished(Exception):
    """No further round is wanted: the way out of a loop that a library owns."""


class Gate:
    """A runner arrives here before its first round and after every round.

    Args:
        parameters: gives the present model's arrays, in PyTorch's order and layout; called only to
            save them.
        packages: whose versions are reported.
        rows: of a runner that draws its own mini-batches: the rows of the last round, clients ×
            steps × batch.
    """

    def __init__(
        self,
        parameters: Callable[[], Iterable[Any]],
        packages: Iterable[str] = (),
        rows: Callable[[], Any] | None = None,
    ) -> None:
        self._parameters, self._rows = parameters, rows
        self._answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._left = 0
        self._save: str | None = None
        self._seconds: list[float] = []
        self._start: float | None = None
        self._versions = {package: version(package) for package in packages}

    def arrive(self) -> bool:
        """End the round under way, if any; wait until another is wanted; False when none is any
        more."""
        now = time.perf_counter()
        if self._start is None:
            self._answer({"versions": self._versions})
        else:
            self._seconds.append(now - self._start)
            self._left -= 1
        if self._left == 0:
            if self._seconds:
                self._finish()
            if not self._listen():
                return False
        self._start = time.perf_counter()
        return True

    def enter(self, *_: object) -> None:
        """For loops that a library owns, as its hook between rounds: arrive, or leave by
        `Finished`."""
        if not self.arrive():
            raise Finished

    def rounds(self) -> Iterator[None]:
        """For runners that own their loop: one item a round."""
        while self.arrive():
            yield

    def _listen(self) -> bool:
        line = sys.stdin.readline()
        command: dict[str, Any] = json.loads(line) if line else {"rounds": 0}
        self._left, self._save = command["rounds"], command.get("save")
        return self._left > 0

    def _finish(self) -> None:
        if self._save:
            np.savez(self._save, *[np.asarray(array) for array in self._parameters()])
            if self._rows is not None:
                np.save(self._save.removesuffix(".npz") + ".rows.npy", self._rows())
        self._answer({"seconds": self._seconds})
        self._seconds = []

    def _answer(self, message: dict[str, Any]) -> None:
        self._answers.write(json.dumps(message) + "\n")
        self._answers.flush()
