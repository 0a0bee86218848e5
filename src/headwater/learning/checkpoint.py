"""Where a run is, on disk: killed at any moment, it goes on from there and ends with the same bits.

Two files in a folder: ``rounds.jsonl``, one record a line, only ever appended; and ``state.npz``,
replaced as a whole. The state is written after its records, so lines beyond the state's round are
those of a round that was cut
short: they are dropped, and written again.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.files import replace
from headwater.learning.algorithm import State

R = TypeVar("R")
_SECONDS = 10.0  # between two states; a kill costs at most that much work


def fingerprint(*parts: str | NDArray[Any]) -> str:
    """A short name for all that decides how a run goes.

    >>> fingerprint("a", np.zeros(2)) == fingerprint("a", np.ones(2))
    False
    """
    digest = sha256()
    for part in parts:
        digest.update(
            part.encode() if isinstance(part, str) else np.ascontiguousarray(part).tobytes()
        )
    return digest.hexdigest()[:16]


class Checkpoint:
    """The state of one run in one folder."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder
        self._fingerprint = fingerprint
        self._records = folder / "rounds.jsonl"
        self._state = folder / "state.npz"
        self._pending: list[str] = []
        self._saved = time.monotonic()

    def load(self, kind: type[R]) -> tuple[State, list[R]] | None:
        """The last state and its records, or None if there is none; what is beyond it is cut
        off."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._state.exists():
            self._records.write_text("")
            return None
        state = self._read_state()
        try:
            lines = self._records.read_text().splitlines()[: state.round]
            records = [kind(**json.loads(line)) for line in lines]
        except (OSError, ValueError, TypeError) as error:
            message = (
                f"{self._records}: cannot be read ({error}); delete the folder and start again"
            )
            raise InputError(message) from error
        if len(lines) < state.round:
            raise InputError(
                f"{self._records}: {len(lines)} rounds, but the state is after round "
                f"{state.round}; "
                "delete the folder and start again"
            )
        replace(self._records, "".join(line + "\n" for line in lines).encode())
        return state, records

    def save(self, state: State, record: Any = None) -> None:
        """Remember a round; write when enough time has passed, or when there is no record (the
        end)."""
        if record is not None:
            self._pending.append(json.dumps(asdict(record)) + "\n")
            if time.monotonic() - self._saved < _SECONDS:
                return
        with open(self._records, "a") as file:
            file.writelines(self._pending)
            file.flush()
            os.fsync(file.fileno())
        self._pending.clear()
        self._write_state(state)
        self._saved = time.monotonic()

    def _write_state(self, state: State) -> None:
        buffer = BytesIO()
        theta, mean = state.parameters.numpy(), state.average.numpy()
        np.savez(
            buffer,
            run=self._fingerprint,
            round=state.round,
            weight=state.weight,
            parameters=theta,
            average=mean,
        )
        replace(self._state, buffer.getvalue())

    def _read_state(self) -> State:
        try:
            with np.load(self._state, allow_pickle=False) as saved:
                run, parameters, average = str(saved["run"]), saved["parameters"], saved["average"]
                state = State(
                    int(saved["round"]),
                    torch.from_numpy(parameters),
                    torch.from_numpy(average),
                    float(saved["weight"]),
                )
        except (OSError, ValueError, KeyError, BadZipFile, EOFError) as error:
            message = f"{self._state}: cannot be read ({error}); delete the folder and start again"
            raise InputError(message) from error
        if run != self._fingerprint:
            raise InputError(
                f"{self.folder} holds a run with other settings, other data or another model; "
                "choose another checkpoint folder, or delete that one"
            )
        return state
