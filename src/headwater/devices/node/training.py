"""The local steps of one client, by the learner's own code.

A request is turned into a round of a ledger with one client in it, its orders are made by
:class:`headwater.ledger.orders.LocalWork` and executed by an engine: the same batches, the same
coefficients and the same numbers as in the simulator, because every draw is keyed by (seed, round,
client).
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headwater.devices.memory import Snapshot
from headwater.devices.wire import Frame
from headwater.learning.engines import choose
from headwater.learning.problem import Problem
from headwater.ledger.orders import LocalWork
from headwater.ledger.rounds import Round

Whole = Annotated[int, Field(ge=1, strict=True)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class RefusedError(Exception):
    """A request that cannot be done; the code tells programs why, the message people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    def frame(self) -> Frame:
        """The reply."""
        return Frame.refusal(self.code, str(self))


class TrainRequest(BaseModel):
    """What a server asks a client to do in a round.

    Attributes:
        run: the run's name.
        round: t, from 1.
        client: m, for the draws of the batches.
        seed: of the run.
        local_steps: E.
        batch_size: K; None: the whole memory.
        learning_rate: η.
        norm_limit: a longer move is shortened to this length; None: as it is.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
    run: Annotated[str, Field(min_length=1, max_length=200)]
    round: Whole
    client: Annotated[int, Field(ge=0, lt=2**62, strict=True)]
    seed: Annotated[int, Field(strict=True)] = 0
    local_steps: Whole = 1
    batch_size: Whole | None = None
    learning_rate: Positive
    norm_limit: Positive | None = None

    @classmethod
    def of(cls, frame: Frame) -> TrainRequest:
        """The request in a frame's header."""
        try:
            return cls.model_validate(dict(frame.header))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise RefusedError("bad request", f"{place}: {first['msg']}") from None


def check_parameters(problem: Problem, vector: NDArray[np.floating] | None) -> torch.Tensor:
    """A flat vector θ as the model's own kind of tensor, if it is one."""
    if vector is None:
        raise RefusedError("bad request", "array 'parameters' is missing")
    kind = problem.parameters[0][1].dtype
    tensor = torch.from_numpy(np.array(vector))  # a copy: the frame's buffer is not ours to keep
    if tensor.shape != (problem.size,) or tensor.dtype != kind:
        raise RefusedError(
            "parameters differ",
            f"this model has {problem.size} parameters of {kind}; got {tuple(tensor.shape)} of "
            f"{tensor.dtype}: server and node must have the same model",
        )
    if not torch.isfinite(tensor).all():
        raise RefusedError("bad request", "parameters: every number must be finite")
    return tensor


def select(snapshot: Snapshot, frame: Frame) -> NDArray[np.float64]:
    """The weight λ of each sample held: as the server says, or alike."""
    positions, weights = frame.arrays.get("positions"), frame.arrays.get("weights")
    if not len(snapshot.positions):
        raise RefusedError("empty", "no samples have arrived yet")
    if positions is None:
        return np.ones(len(snapshot.positions))
    if weights is None or weights.shape != positions.shape:
        raise RefusedError("bad request", "weights: one for each of the positions")
    if not np.array_equal(positions, snapshot.positions):
        raise RefusedError("holdings differ", _difference(snapshot.positions, positions))
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise RefusedError("bad request", "weights: finite numbers ≥ 0, not all 0")
    return weights.astype(np.float64)


def local_move(
    problem: Problem,
    snapshot: Snapshot,
    weights: NDArray[np.float64],
    request: TrainRequest,
    parameters: torch.Tensor,
) -> tuple[torch.Tensor, int]:
    """θ_m(t, E+1) − θ(t), and how many gradients it took."""
    samples = np.flatnonzero(weights)  # the ledger's rounds have no samples of weight zero either
    round = Round(
        request.round,
        clients=np.array([request.client]),
        shares=np.ones(1),
        offsets=np.array([0, len(samples)]),
        samples=samples,
        weights=weights[samples] / weights[samples].sum(),
    )
    work = LocalWork(request.local_steps, request.batch_size, seed=request.seed)
    orders = work.orders(round)
    features = torch.from_numpy(snapshot.x)
    own = replace(
        problem,
        x=features.to(problem.x.dtype),
        y=torch.from_numpy(snapshot.y),
        seed=request.seed,
    )
    with torch.random.fork_rng(devices=[]):  # dropout is seeded by its own key
        move = choose(own, orders, workers=0).moves(parameters, orders, request.learning_rate)
    return _limited(move, request), orders.samples.size


def rehearse(problem: Problem) -> None:
    """A few local steps on the made-up samples of a problem, of which nothing remains.

    The first gradient of a process takes hundreds of times as long as the next ones: PyTorch loads
    its function transforms then. Better before anybody waits for it.
    """
    made_up = Snapshot(np.arange(len(problem.y)), problem.x[:].numpy(), problem.y.numpy())
    for steps in (1, 2):  # a single step and several have different engines
        request = TrainRequest(
            run="rehearsal", round=1, client=0, local_steps=steps, learning_rate=1e-6
        )
        with suppress(RefusedError):  # made-up samples prove nothing: real ones may well do
            local_move(problem, made_up, np.ones(len(problem.y)), request, problem.initial())


def _limited(move: torch.Tensor, request: TrainRequest) -> torch.Tensor:
    length = float(move.norm())
    if not math.isfinite(length):
        raise RefusedError(
            "diverged",
            f"the move of round {request.round} is not finite at learning_rate="
            f"{request.learning_rate:g}",
        )
    limit = request.norm_limit
    return move if limit is None or length <= limit else move * (limit / length)


def _difference(held: NDArray[np.int64], wanted: NDArray[np.int64]) -> str:
    missing, more = np.setdiff1d(wanted, held), np.setdiff1d(held, wanted)
    return (
        f"{len(held)} samples are held, {len(wanted)} are expected; {len(missing)} are not here "
        f"(arrival numbers {missing[:5].tolist()} …), {len(more)} are here besides "
        f"({more[:5].tolist()} …)"
    )
