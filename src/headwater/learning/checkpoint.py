"""Where a run is, on disk: killed at any moment, it goes on from there and ends with the same bits.

The same bits, if it is computed in the same manner: other processes add their sums in another
order. So the state also says by which engine and in how many processes its rounds were computed.

Two files in a folder: ``rounds.jsonl``, one record per line, only ever appended; and ``state.npz``,
replaced as a whole. The state is written after its records, so lines beyond the state's round are
those of a round that was cut short: they are dropped, and written again.

Every line ends with a check of itself and of all lines before it, and the state knows the last one:
a flipped bit, a missing line and two lines in the wrong order are found when the run goes on.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike

from headwater.errors import InputError
from headwater.files import UNREADABLE, replace
from headwater.learning.algorithm import Record, State
from headwater.learning.estimation.kept import Kept

_SECONDS = 10.0  # between two states; a kill costs at most that much work


@dataclass(frozen=True)
class Stored:
    """What a folder holds of a run.

    Attributes:
        state: the last one.
        history: the records of its rounds.
        identity: what decides the run, by name.
        rounds: T, the length that the run was to have.
        manner: how its rounds were computed: by which engine, in how many processes.
    """

    state: State
    history: list[Record]
    identity: Mapping[str, str]
    rounds: int
    manner: str


class Checkpoint:
    """The state of one run in one folder.

    Attributes:
        folder: Where it is.
        manner: How the rounds are computed that are stored from now on.
    """

    def __init__(
        self,
        folder: Path,
        identity: Mapping[str, str],
        rounds: int,
        measured: Kept | None = None,
    ) -> None:
        self.folder = folder
        self._identity = json.dumps(dict(identity))
        self._rounds = rounds
        self._measured = json.dumps(asdict(measured) if measured else None)
        self.manner = ""
        self._lines = folder / "rounds.jsonl"
        self._check = ""  # of the last line that is known
        self._pending: list[str] = []
        self._newest: State | None = None
        self._saved = time.monotonic()

    def begin(self, history: Iterable[Record] = ()) -> None:
        """Take the folder, with the records of the rounds that are done."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [self._line(record) for record in history]
        replace(self._lines, "".join(lines).encode())

    def keep(self, start: State) -> None:
        """Write where a run begins: what was measured for it may have taken long."""
        self._newest = start
        self.write()

    def save(self, state: State, record: Record) -> None:
        """Remember a round; write if enough time has passed."""
        self._pending.append(self._line(record))
        self._newest = state
        if time.monotonic() - self._saved >= _SECONDS:
            self.write()

    def write(self) -> None:
        """Write what has not been written: first the records, then the state that needs them."""
        if self._newest is None:
            return
        # This order: a state without its records could not go on, records without a state can.
        _append(self._lines, "".join(self._pending))
        self._pending.clear()
        replace(self.folder / "state.npz", self._packed(self._newest))
        self._newest = None
        self._saved = time.monotonic()

    def rescue(self) -> None:
        """Write the last finished round of a run that has failed; a full disk may be the reason."""
        with suppress(OSError):
            self.write()

    def _line(self, record: Record) -> str:
        content = json.dumps(asdict(record))
        self._check = _chained(self._check, content)
        return f'{content[:-1]}, "check": "{self._check}"}}\n'

    def _packed(self, state: State) -> bytes:
        arrays: dict[str, ArrayLike] = {
            "identity": self._identity,
            "rounds": self._rounds,
            "manner": self.manner,
            "measured": self._measured,
            "round": state.round,
            "weight": state.weight,
            "check": self._check,
            "parameters": state.parameters.cpu().numpy(),
            "average": state.average.cpu().numpy(),
        }
        arrays |= {f"memory {k}": vector.cpu().numpy() for k, vector in enumerate(state.memory)}
        buffer = BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        return buffer.getvalue()


def read(folder: Path) -> Stored | None:
    """What a folder holds, or None; nothing in it is changed.

    Raises:
        InputError: if it is damaged.
    """
    file = folder / "state.npz"
    if not file.exists():
        return None
    try:
        with np.load(file, allow_pickle=False) as saved:
            identity = json.loads(str(saved["identity"]))
            rounds, check = int(saved["rounds"]), str(saved["check"])
            manner = str(saved["manner"]) if "manner" in saved else ""
            parameters, average = (torch.from_numpy(saved[n]) for n in ("parameters", "average"))
            kept = [n for n in saved.files if n.startswith("memory ")]
            memory = tuple(torch.from_numpy(saved[n]) for n in kept)
            round, weight = int(saved["round"]), float(saved["weight"])
            state = State(round, parameters, average, weight, memory)
    except UNREADABLE as error:
        raise _damaged(file, str(error)) from error
    history = read_rounds(folder / "rounds.jsonl", state.round, check)
    return Stored(state, history, identity, rounds, manner)


def read_measured(folder: Path) -> Kept | None:
    """What was measured before the first round of a folder's run, or None.

    Raises:
        InputError: if the state is damaged.
    """
    file = folder / "state.npz"
    if not file.exists():
        return None
    try:
        with np.load(file, allow_pickle=False) as saved:
            kept = json.loads(str(saved["measured"])) if "measured" in saved else None
            return Kept(**kept) if kept else None
    except UNREADABLE as error:
        raise _damaged(file, str(error)) from error


def read_rounds(file: Path, count: int | None = None, last: str | None = None) -> list[Record]:
    """The records of a file, each line checked.

    Args:
        file: ``rounds.jsonl`` of a run.
        count: how many to read; None: all.
        last: the check of the last of them, if it is known.
    """
    check, records = "", []
    try:
        lines = file.read_text().splitlines()[:count]
        for number, line in enumerate(lines, 1):
            # The text itself is checked, not what it is read as: 1.0 and 1.00 are not the same.
            content, _, given = line.rpartition(', "check": ')
            check = _chained(check, content + "}")
            if given != f'"{check}"}}':
                raise ValueError(f"line {number} was changed, or lines before it")
            records.append(Record(**json.loads(content + "}")))
    except UNREADABLE as error:
        raise _damaged(file, str(error)) from error
    if (count is not None and len(records) < count) or (last is not None and check != last):
        raise _damaged(file, f"{len(records)} rounds, but the state is after round {count}")
    return records


def _chained(before: str, content: str) -> str:
    """A check of a line and of all that came before it.

    >>> _chained("", "{}") == _chained("", "{ }")
    False
    """
    return sha256(f"{before}\n{content}".encode()).hexdigest()[:16]


def _append(file: Path, text: str) -> None:
    try:
        with open(file, "a") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
    except OSError as error:
        # A full disk says "no space left", but not for what.
        raise OSError(error.errno, error.strerror, str(file)) from error


def _damaged(file: Path, reason: str) -> InputError:
    return InputError(f"{file}: cannot be read ({reason}); delete the folder and start again")
