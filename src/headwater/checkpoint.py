"""Where a run is, on disk: killed at any moment, it goes on from there and ends with the same bits.

Two files in a folder: ``rounds.jsonl``, one record a line, only ever appended; and ``state.npz``, replaced as a
whole. The state is written after its records, so lines beyond the state's round are those of a round that was cut
short: they are dropped, and written again.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np
import torch

from headwater.errors import InputError
from headwater.files import replace
from headwater.learner import State

R = TypeVar("R")
_SECONDS = 10.0  # between two states; a kill costs at most that much work


class Checkpoint:
    """The state of one run in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._records = folder / "rounds.jsonl"
        self._state = folder / "state.npz"
        self._pending: list[str] = []
        self._saved = time.monotonic()

    def load(self, kind: type[R]) -> tuple[State, list[R]] | None:
        """The last state and its records, or None if there is none; what is beyond it is cut off."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._state.exists():
            self._records.write_text("")
            return None
        state = self._read_state()
        lines = self._records.read_text().splitlines()[: state.round]
        if len(lines) < state.round:
            raise InputError(f"{self._records}: {len(lines)} rounds, but the state is after round {state.round}; "
                             "delete the folder and start again")  # fmt: skip
        replace(self._records, "".join(line + "\n" for line in lines).encode())
        return state, [kind(**json.loads(line)) for line in lines]

    def save(self, state: State, record: Any = None) -> None:
        """Remember a round; write when enough time has passed, or when there is no record (the end)."""
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
        np.savez(buffer, round=state.round, weight=state.weight, parameters=state.parameters.numpy(),
                 average=state.average.numpy())  # fmt: skip
        replace(self._state, buffer.getvalue())

    def _read_state(self) -> State:
        try:
            with np.load(self._state, allow_pickle=False) as saved:
                parameters, average = (torch.from_numpy(saved[name]) for name in ("parameters", "average"))
                return State(int(saved["round"]), parameters, average, float(saved["weight"]))
        except (OSError, ValueError, KeyError, BadZipFile, EOFError) as error:
            raise InputError(
                f"{self._state}: cannot be read ({error}); delete the folder and start again"
            ) from error
