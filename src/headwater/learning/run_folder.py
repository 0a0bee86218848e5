"""A finished run in a folder, and back: arrays, JSON lines and JSON, nothing that is executed.

``run.json`` says what the others are and holds a digest of each, so that a damaged folder is found:
``arrays.npz`` (parameters, ledger, each client's last test) and ``rounds.jsonl`` (one record per
round). The model's class is not stored: bring a model of the same kind to get it back.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from headwater.errors import InputError
from headwater.files import UNREADABLE, check_folder, replace
from headwater.learning.algorithm import Record, State
from headwater.learning.evaluation import Score
from headwater.learning.identity import versions
from headwater.learning.problem import Problem, own_copy
from headwater.learning.run import Run
from headwater.ledger.drawing import Drawing
from headwater.ledger.holdings import Holdings
from headwater.ledger.ledger import Ledger
from headwater.ledger.strategies import Weights

_FORMAT = 1
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class StoredStrategy:
    """A strategy of which only the weights that it gave were stored.

    Attributes:
        description: how the strategy described itself.
        given: its weights.
    """

    description: str
    given: Weights

    def weights(self, holdings: Holdings) -> Weights:  # noqa: ARG002 (the protocol's signature)
        """The weights that were stored."""
        return self.given

    def __repr__(self) -> str:
        return self.description


def save_run(run: Run, folder: Path) -> None:
    """Write a run; the description comes last, so that without it there is nothing to read."""
    check_folder("run.save", folder)
    lines = "".join(json.dumps(asdict(record)) + "\n" for record in run.history).encode()
    files = {"arrays.npz": _packed(run), "rounds.jsonl": lines}
    for name, content in files.items():
        replace(folder / name, content)
    description = {
        "format": _FORMAT,
        "strategy": repr(run.strategy),
        "drawing": asdict(run.ledger.holdings.drawing),
        "better": {} if run.score is None else dict(run.score.better),
        "names": list(run.names),
        "versions": versions(),
        "sha256": {name: sha256(content).hexdigest() for name, content in files.items()},
    }
    replace(folder / "run.json", json.dumps(description, indent=1, default=float).encode())


def load_run(folder: Path | str, model: nn.Module | None = None) -> Run:
    """A run that was saved with ``run.save(folder)``.

    Args:
        folder: where it is.
        model: a model like the one that was learned, for ``run.model`` and ``run.average``; it is
            not changed. Without it everything else is there.

    Raises:
        InputError: if there is no run, if it is damaged, or if the model does not fit.

    Example:
        >>> run.save("kept")                        # doctest: +SKIP
        >>> hw.load_run("kept", Net()).average      # doctest: +SKIP
    """
    folder = Path(folder)
    try:
        about = json.loads((folder / "run.json").read_text())
        arrays = _arrays(_sound(folder, "arrays.npz", about))
        lines = _sound(folder, "rounds.jsonl", about).decode().splitlines()
        history = [Record(**json.loads(line)) for line in lines]
        ledger = _ledger(arrays, Drawing(**about["drawing"]))
        state = _state(arrays)
        score = _score(arrays, about["better"])
        strategy = StoredStrategy(about["strategy"], ledger.weights)
        names = tuple(map(str, about.get("names", ())))
        if names and len(names) != ledger.holdings.clients:
            raise ValueError(f"{len(names)} names for {ledger.holdings.clients} clients")
    except UNREADABLE as error:
        raise InputError(f"load_run: {folder} holds no run that can be read ({error})") from error
    return Run(strategy, ledger, history, state, _problem(model, state), score, names)


def _packed(run: Run) -> bytes:
    holdings, score = run.ledger.holdings, run.score
    arrays: Arrays = {
        "round": np.array(run.state.round),
        "weight": np.array(run.state.weight),
        "parameters": run.state.parameters.cpu().numpy(),
        "average": run.state.average.cpu().numpy(),
        "offsets": holdings.offsets,
        "enter": holdings.enter,
        "leave": holdings.leave,
        "rounds": np.array(holdings.rounds),
        "weights": _weights(run.ledger),
    }
    if score is not None:
        arrays |= {f"score {name}": values for name, values in score.values.items()}
        arrays |= {f"failed {name}": who for name, who in score.failed.items()}
    buffer = BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def _weights(ledger: Ledger) -> NDArray[Any]:
    """λ, one per sample; or a table with one row per round, if they change while held."""
    if not callable(ledger.weights):
        return ledger.weights
    return np.array([ledger.weights_at(t + 1) for t in range(ledger.holdings.rounds)])


def _sound(folder: Path, name: str, about: dict[str, Any]) -> bytes:
    """A file's content, if it is what was written."""
    content = (folder / name).read_bytes()
    if sha256(content).hexdigest() != about["sha256"][name]:
        raise ValueError(f"{name} has changed since it was written")
    return content


def _arrays(content: bytes) -> Arrays:
    with np.load(BytesIO(content), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def _ledger(arrays: Arrays, drawing: Drawing) -> Ledger:
    holdings = Holdings(
        arrays["offsets"], arrays["enter"], arrays["leave"], int(arrays["rounds"]), drawing
    )
    weights = arrays["weights"]
    return Ledger(holdings, weights if weights.ndim == 1 else lambda round: weights[round - 1])


def _state(arrays: Arrays) -> State:
    parameters, average = (torch.from_numpy(arrays[name]) for name in ("parameters", "average"))
    return State(int(arrays["round"]), parameters, average, float(arrays["weight"]))


def _score(arrays: Arrays, better: dict[str, Any]) -> Score | None:
    named = {kind: _named(arrays, kind) for kind in ("score ", "failed ")}
    return Score(named["score "], named["failed "], better) if named["score "] else None


def _named(arrays: Arrays, kind: str) -> Arrays:
    return {n.removeprefix(kind): values for n, values in arrays.items() if n.startswith(kind)}


def _problem(model: nn.Module | None, state: State) -> Problem | None:
    if model is None:
        return None
    problem = Problem(own_copy(model), torch.empty(0), torch.empty(0))
    if problem.size != len(state.parameters):
        raise InputError(
            f"load_run(model): {problem.size} parameters, but the run's model has "
            f"{len(state.parameters)}"
        )
    return problem
