"""All clients of a federation in one process: the ledger's rounds, one after the other."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from headwater.errors import InputError
from headwater.learning.algorithm import Rate, Record, State, learn, schedule
from headwater.learning.checkpoint import Checkpoint, fingerprint
from headwater.learning.engines import choose
from headwater.learning.estimation import resolve
from headwater.learning.evaluation import Metric, evaluate
from headwater.learning.federation import Client, Federation, Part
from headwater.learning.losses import Loss, accuracy, cross_entropy
from headwater.learning.problem import Problem
from headwater.learning.projection import Projection
from headwater.ledger.ledger import Ledger
from headwater.ledger.orders import LocalWork
from headwater.ledger.strategies import Strategy, Uniform


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        strategy: how much each sample counted; an ``Optimal()`` with the ratio that was estimated.
        ledger: who held what, with what weight.
        history: one record a round.
        state: the end of the learning.
    """

    strategy: Strategy
    ledger: Ledger
    history: list[Record]
    state: State
    problem: Problem

    @cached_property
    def model(self) -> nn.Module:
        """The model with the last iterate θ(T+1)."""
        return self.problem.load(self.state.parameters, copy.deepcopy(self.problem.model))

    @cached_property
    def average(self) -> nn.Module:
        """The model with Algorithm 1's output, the q-weighted average θ̄."""
        return self.problem.load(self.state.average, copy.deepcopy(self.problem.model))


def simulate(
    model: nn.Module,
    clients: Sequence[Client] | Federation,
    strategy: Strategy | None = None,
    rounds: int = 100,
    local_steps: int = 1,
    batch_size: int | None = None,
    learning_rate: Rate = 0.1,
    seed: int = 0,
    *,
    loss: Loss = cross_entropy,
    metric: Metric = accuracy,
    projection: Projection | None = None,
    participation: float | None = None,
    test_every: int | None = None,
    engine: str | None = None,
    workers: int | None = None,
    checkpoint: Path | str | None = None,
    progress: Callable[[Record], None] | None = None,
) -> Run:
    """Learn one model from many streams.

    Args:
        model: any module; it is not changed.
        clients: clients, or a federation of them.
        strategy: how much each sample counts; ``Uniform()`` unless told otherwise.
        rounds: T.
        local_steps: E, gradient steps of a client in a round.
        batch_size: K; None: the whole memory.
        learning_rate: η, a number or a function of the round.
        seed: of arrivals, memories and batches (not of the model: its parameters are where it
            starts).
        loss: (outputs, labels) -> one number a sample; cross-entropy unless told otherwise.
        metric: (outputs, labels) -> one number a sample, called accuracy in the records.
        projection: Θ: ``Ball(radius)``, ``Box(low, high)`` or None.
        participation: how many clients take part in a round (2), or which fraction (0.2); None:
            all. Those who are there carry the share of those who are not, so that each client
            counts p_m(t) in expectation and a round's shares sum to one: see
            :func:`headwater.ledger.orders.select`.
        test_every: test after every so many rounds (and at the end); None: 20 times in a run; 0:
            never.
        engine: "loop", "fused", "lockstep", "batched" or "sequential"; None: by the work at hand.
        workers: worker processes; None: by the work at hand; 0: none.
        checkpoint: a folder; a run that was stopped goes on from there and ends with the same bits.
        progress: called with each round's record.

    Returns:
        The models, the ledger and a record a round.

    >>> import numpy as np, headwater as hw
    >>> x = np.random.default_rng(0).normal(size=(40, 2)); y = (x[:, 0] > 0).astype(int)
    >>> clients = [hw.Client(x[:8], y[:8], test=(x, y)),
    ...            hw.Client(x[8:], y[8:], arrivals=hw.Constant(4), memory=hw.Fifo(4), test=(x, y))]
    >>> run = simulate(torch.nn.Linear(2, 2), clients, rounds=8, learning_rate=1.0)
    >>> run.ledger.importance, len(run.history)
    (array([0.2, 0.8]), 8)
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"model: a torch.nn.Module; got a {type(model).__name__}")
    federation = clients if isinstance(clients, Federation) else Federation.of(clients)
    train = federation.train
    problem = Problem(model, _like(train.x, model), train.y, train.row_tensor, loss, seed)
    problem.check()
    holdings = federation.holdings(rounds, seed)
    strategy = resolve(strategy or Uniform(), model, federation, holdings, loss, seed)
    ledger = Ledger.weigh(holdings, strategy)
    local_work = LocalWork(local_steps, batch_size, participation, seed)
    rates = schedule(learning_rate, rounds)
    store = _open(checkpoint, ledger, local_work, rates, problem, projection)
    state, history = (store.load(Record) if store else None) or (State.start(problem.initial()), [])
    test = _Test(federation.test, problem, metric, _test_every(test_every, rounds), rounds)
    runner = choose(problem, local_work.orders(ledger.round(1)), engine, workers)
    with (
        closing(runner),
        torch.random.fork_rng(devices=[]),
    ):  # a model's own draws are seeded, the caller's are not
        for now, untested in learn(state, ledger, local_work, runner, rates, projection):
            state, record = now, test(now, untested)
            history.append(record)
            if progress:
                progress(record)
            if store:
                store.save(state, record)
        if store:
            store.save(state)
    return Run(strategy, ledger, history, state, problem)


class _Test:
    """Tests the model in some of the rounds."""

    def __init__(
        self, part: Part | None, problem: Problem, metric: Metric, every: int, rounds: int
    ) -> None:
        self._part, self._problem, self._metric, self._every, self._last = (
            part,
            problem,
            metric,
            every,
            rounds,
        )
        self._model = copy.deepcopy(problem.model)

    def __call__(self, state: State, record: Record) -> Record:
        if (
            self._part is None
            or not self._every
            or (state.round % self._every and state.round != self._last)
        ):
            return record
        model = self._problem.load(state.parameters, self._model)
        score = evaluate(model, self._part, self._problem.loss, self._metric)
        return replace(
            record, accuracy=float(np.nanmean(score.accuracy)), loss=float(np.nanmean(score.loss))
        )


def _open(
    folder: Path | str | None,
    ledger: Ledger,
    local_work: LocalWork,
    rates: Sequence[float],
    problem: Problem,
    projection: Projection | None,
) -> Checkpoint | None:
    """The checkpoint in a folder, for this very run and no other."""
    if folder is None:
        return None
    names = repr(local_work), _name(problem.loss), _name(projection)
    some = np.linspace(0, len(problem.x) - 1, 100).astype(
        int
    )  # enough to tell data sets apart, however large
    data = problem.initial().numpy(), problem.x[some].numpy(), problem.y[some].numpy()
    parts = (*names, ledger.sample_shares, ledger.round_shares, np.asarray(rates), *data)
    return Checkpoint(Path(folder), fingerprint(*parts))


def _name(thing: object) -> str:
    """What a setting is called, the same in every process."""
    return (
        repr(thing)
        if is_dataclass(thing)
        else getattr(thing, "__qualname__", type(thing).__qualname__)
    )


def _like(x: Tensor, model: nn.Module) -> Tensor:
    """Features in the model's precision; images of a convolutional model lie channels last, which
    is faster."""
    kind = next((p.dtype for p in model.parameters()), torch.float32)
    if x.is_floating_point() and x.dtype != kind:
        x = x.to(kind)
    if x.ndim == 4 and any(isinstance(m, nn.Conv2d) for m in model.modules()):
        return x.contiguous(memory_format=torch.channels_last)
    return x


def _test_every(test_every: int | None, rounds: int) -> int:
    if test_every is None:
        return max(1, rounds // 20)
    if test_every < 0:
        raise InputError(f"test_every: a number of rounds, or 0 for never; got {test_every}")
    return test_every
