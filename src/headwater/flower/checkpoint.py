"""Where a run is, on disk, after every round: a server that was killed goes on from there.

    state.npz      parameters, average, round; the roster; replaced as a whole
    rounds.jsonl   the journal; a line beyond the state is that of a round that is done again
    tests.jsonl    what the clients measured on their own test samples, for whoever looks on
    lock           held while a server works here: two servers never write one run

Done again means: asked again with the same words, which nodes answer with the same reply. So no
round is ever applied twice, and none is lost.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import uuid
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from types import TracebackType

import numpy as np

from headwater.errors import InputError
from headwater.files import UNREADABLE, replace, sweep
from headwater.flower.journal import Entry, Journal
from headwater.flower.roster import Roster
from headwater.flower.state import State

_PATIENCE = 30.0  # seconds for the server before this one to notice that it is alone


class Checkpoint:
    """The folder of one run, for one server at a time.

    Args:
        folder: where it is kept.
        settings: a fingerprint of what decides how the run goes; a resumed run must have the same.
        seed: of the run, for whoever reads it later.
        rounds: the last round; None: there is none.

    Attributes:
        looks_ahead: whether the plan depends on the number of rounds; then a resumed run must have
            the same, and otherwise it may be given more, or an end.
    """

    def __init__(
        self, folder: Path, settings: str, seed: int = 0, rounds: int | None = None
    ) -> None:
        self.folder = folder
        self.journal = Journal(folder / "rounds.jsonl")
        self.run = uuid.uuid4().hex[:16]
        self.looks_ahead = False
        self._settings, self._rounds = settings, rounds
        self.seed = seed
        self._state = folder / "state.npz"
        self._lock = -1

    def __enter__(self) -> Checkpoint:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + _PATIENCE
        while not self._locked():
            if time.monotonic() > deadline:
                raise InputError(
                    f"{self.folder}: another server works here; stop it, or choose another folder"
                )
            time.sleep(0.2)
        sweep(self.folder)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._lock)  # and with it the lock

    def _locked(self) -> bool:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def load(self) -> tuple[State, Roster] | None:
        """The last state and its clients; None: nothing was done yet."""
        if not self._state.exists():
            self.journal.path.unlink(missing_ok=True)
            return None
        try:
            with np.load(self._state, allow_pickle=False) as saved:
                about = json.loads(str(saved["about"]))
                state = State(
                    about["round"], saved["parameters"], saved["average"], about["weight"]
                )
        except UNREADABLE as error:
            raise InputError(f"{self._state}: cannot be read ({error})") from error
        if about["settings"] != self._settings:
            raise InputError(
                f"{self.folder} holds a run with other settings or another model "
                f"({about['settings']}, now {self._settings}); choose another checkpoint folder"
            )
        if about["looks_ahead"] and about["rounds"] != self._rounds:
            raise InputError(
                f"{self.folder} holds a run with num_rounds={about['rounds']}, now {self._rounds}; "
                "its shares look ahead to the last round, so that more rounds would be another "
                "run: choose another checkpoint folder (strategies that do not look ahead, such as "
                "RememberedOnline() on live streams, can be given more)"
            )
        self.run, self.looks_ahead = about["run"], about["looks_ahead"]
        self.journal.cut(state.round)
        return state, Roster.from_json(about["roster"])

    def note_test(self, round: int, numbers: Mapping[str, float]) -> None:
        """Write down a test; it decides nothing, so it may be lost."""
        with open(self.folder / "tests.jsonl", "a") as file:
            file.write(json.dumps({"round": round, "time": time.time(), **numbers}) + "\n")

    def save(self, state: State, roster: Roster, entry: Entry | None = None) -> None:
        """Put a round on the disk: first its line, then the state that makes it count."""
        if entry is not None:
            self.journal.append(entry)
        about = {
            "run": self.run,
            "settings": self._settings,
            "seed": self.seed,
            "rounds": self._rounds,
            "looks_ahead": self.looks_ahead,
            "round": state.round,
            "weight": state.weight,
            "roster": roster.as_json(),
        }
        buffer = BytesIO()
        np.savez(
            buffer, parameters=state.parameters, average=state.average, about=json.dumps(about)
        )
        replace(self._state, buffer.getvalue())
