"""All clients of a federation in one process: the ledger's rounds, one after the other."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from headwater.errors import InputError
from headwater.files import check_folder
from headwater.learning import assumptions, torchrun
from headwater.learning.algorithm import Rate, Record, State, schedule
from headwater.learning.arrays import Values
from headwater.learning.callbacks import Beginning, Callback, Callbacks, ProgressBar
from headwater.learning.callbacks.callback import Moment, Told
from headwater.learning.checkpoint import Checkpoint, read, read_measured
from headwater.learning.course import Course, check_same
from headwater.learning.engines import Engine, choose, manner
from headwater.learning.engines.flat import FlatModel
from headwater.learning.estimation import resolve
from headwater.learning.estimation.kept import Kept, left_open
from headwater.learning.evaluation import Score
from headwater.learning.federation import Client, Federation
from headwater.learning.follow import Follower, weight_after, with_shares
from headwater.learning.frames import FrameFederation
from headwater.learning.losses import Loss, cross_entropy
from headwater.learning.metrics import Metric, PerSample
from headwater.learning.optimisers import Piece, Server, chain_of
from headwater.learning.problem import CPU, Problem, gradients_on, known_device, own_copy
from headwater.learning.projection import Projection
from headwater.learning.run import Run
from headwater.learning.settings import seed_number
from headwater.learning.testing import Tests, with_score
from headwater.ledger.forgetting import Forgetting
from headwater.ledger.ledger import Ledger
from headwater.ledger.orders import LocalWork
from headwater.ledger.strategies import Strategy, Uniform


@gradients_on()
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
    metrics: Mapping[str, PerSample | Metric] | None = None,
    test: tuple[Values, Values] | None = None,
    projection: Projection | None = None,
    local: Piece | Sequence[Piece] = (),
    server: Piece | Sequence[Piece] = (),
    server_rate: float = 1.0,
    participation: float | None = None,
    test_every: int | None = None,
    prequential: bool = False,
    engine: str | None = None,
    workers: int | None = None,
    device: torch.device | str | None = None,
    checkpoint: Path | str | None = None,
    version: str | None = None,
    progress: bool | Callable[[Record], object] = False,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Learn one model from many streams.

    In a program that ``torchrun`` has started several times, each of its processes does the work of
    some of the clients, and all return the same run (:mod:`headwater.learning.torchrun`).

    Args:
        model: any module whose answer to a sample depends on that sample alone; it is not changed.
            BatchNorm must be in evaluation mode (its statistics frozen), or GroupNorm instead.
        clients: clients, or a federation of them.
        strategy: how much each sample counts; ``Uniform()`` unless told otherwise.
        rounds: T.
        local_steps: E, gradient steps of a client in a round.
        batch_size: K; None: the whole memory.
        learning_rate: η, a number or a function of the round.
        seed: of arrivals, memories and batches (not of the model: its parameters are where it
            starts).
        loss: (outputs, labels) -> one number per sample; cross-entropy unless told otherwise.
        metrics: names and functions (outputs, labels) -> one number per sample, or
            :class:`headwater.Metric`; None: accuracy for cross-entropy, mae and r2 for squared
            error, nothing but the loss for a loss of your own.
        test: features and labels of one test set that is common to all clients.
        projection: Θ: ``Ball(radius)``, ``Box(low, high)`` or None.
        local: what clients do with their gradients, as in ``[WeightDecay(1e-4), Momentum(0.9)]``,
            ``Proximal(0.1)`` (FedProx) or ``Adam()``; plain steps unless told otherwise.
        server: what the server does with the clients' moves: ``Momentum(0.9)`` (FedAvgM),
            ``FedAdam()`` or ``FedYogi()``; it adds them unless told otherwise.
        server_rate: the server's learning rate; about 0.01 for FedAdam and FedYogi.
        participation: how many clients take part in a round (2), or which fraction (0.2); None:
            all. Those who are there carry the share of those who are not, so that each client
            counts p_m(t) in expectation and a round's shares sum to one: see
            :func:`headwater.ledger.orders.select`.
        test_every: test after every so many rounds (and at the end); None: 20 times in a run; 0:
            never.
        prequential: test every sample as it arrives, before it is learned from
            (``run.prequential``); one forward pass per arriving sample.
        engine: "loop", "fused", "lockstep", "batched" or "sequential"; None: by the work at hand.
        workers: worker processes; None: by the work at hand; 0: none.
        device: where to compute, such as "cuda"; None: the CPU. Samples and model are moved there
            once; checkpoints and saved runs are the same from every device, up to rounding.
        checkpoint: a folder; a run that was stopped goes on from there and ends with the same bits.
            The folder is refused if anything that decides the result is not the same: settings,
            samples, tests, model, the code of loss and metrics, versions. With more ``rounds`` than
            before, a finished run goes on if its strategy does not depend on their number.
        version: a word that stands for what a checkpoint cannot identify (an open file that a loss
            reads from); give another when it changes.
        progress: True for a bar on the terminal; or a function, called with each round's record.
        callbacks: told of every round, and free to end the run: ``EarlyStopping("loss")``,
            ``CsvLog(path)``, ``TensorBoardLog(folder)``, ``MlflowLog()``, or your own
            :class:`headwater.Callback`. Of several ranks, the first tells and decides.

    Returns:
        The models, the ledger and one record per round.

    Example:
        >>> import numpy as np, headwater as hw
        >>> x = np.random.default_rng(0).normal(size=(40, 2))
        >>> y = (x[:, 0] > 0).astype(int)
        >>> clients = [hw.Client(x[:8], y[:8]),
        ...            hw.Client(x[8:], y[8:], arrivals=hw.Constant(4), memory=hw.Fifo(4))]
        >>> run = simulate(torch.nn.Linear(2, 2), clients, rounds=8, learning_rate=1.0, test=(x, y))
        >>> run.ledger.importance, len(run.history)
        (array([0.2, 0.8]), 8)
    """
    seed = seed_number(seed)
    _check_kinds(loss, version)
    watching = Callbacks([*_shown(progress), *callbacks])
    federation = _federation(clients, test)
    place = known_device(device)
    problem = Problem.of(model, federation.train, loss, seed, place)
    problem = replace(problem, local=chain_of(local, "local"))
    optimiser = Server(chain_of(server, "server"), server_rate)
    assumptions.check(problem)
    # The start of the run and the model that it came from are then the same memory.
    problem = replace(problem, model=FlatModel(problem).model)
    local_work = LocalWork(local_steps, batch_size, participation, seed)

    wanted = Uniform() if strategy is None else strategy
    _check_horizon(wanted, local, server)
    # What arrives is the only thing that can say when to forget.
    prequential = prequential or isinstance(wanted, Forgetting)

    kept = torchrun.from_first(partial(_measured_before, checkpoint))

    def plan(length: int) -> Course:
        # Strategies may look at what is drawn, not only at what is held.
        holdings = replace(federation.holdings(length, seed), drawing=local_work)
        rates = schedule(learning_rate, length)
        rate = server_rate * sum(rates) / length
        # What a strategy leaves open is measured where the clients' samples are.
        probe = problem.model if place == CPU else own_copy(problem.model).cpu()
        if kept is not None and kept.answers(wanted, length):
            chosen = kept.fill(wanted)
        else:
            chosen = resolve(wanted, probe, federation, holdings, loss, seed, rate)
        ledger = Ledger.weigh(holdings, chosen)
        tests = Tests.of(federation.test, problem, metrics, test_every, length)
        return Course(
            problem,
            chosen,
            ledger,
            local_work,
            rates,
            projection,
            tests,
            version,
            prequential,
            optimiser,
        )

    course = plan(rounds)
    store: Checkpoint | None = None

    def begin() -> tuple[State, list[Record]]:
        nonlocal store
        measured = Kept.of(wanted, course.strategy, rounds)
        store, state, history = _beginning(checkpoint, course, plan, measured)
        return state, history

    # Of several ranks the first reads and writes, and tells the others where the run is.
    state, history = torchrun.from_first(begin)
    state = state.on(place)
    runner = choose(problem, local_work.orders(course.ledger.round(1)), engine, workers)
    if store is not None and state.round < rounds:
        _take_up(store, manner(runner))
    follower = Follower(course, history)
    # A model's own draws are seeded by the run; the caller's generator goes on where it was.
    others = [place] if place.type == "cuda" else []
    with closing(runner), torch.random.fork_rng(devices=others):
        state, score = _follow(follower, runner, state, history, store, watching)
    # A finished run that was read from its folder has not been tested again.
    score = score or _score(course, state)
    course = follower.course
    history = with_shares(history, course.ledger)
    names = federation.clients if isinstance(federation, FrameFederation) else ()
    named = tuple(map(str, names))
    return Run(course.strategy, course.ledger, history, state, problem, score, named)


def _check_horizon(strategy: Strategy, local: object, server: object) -> None:
    """The measured horizon is that of plain steps: momentum and Adam forget at another pace."""
    if "horizon" in left_open(strategy) and (local or server):
        raise InputError(
            "strategy: Remembered() measures its horizon for plain gradient steps; with optimisers "
            "in local= or server= give it, as in Remembered(horizon=0.25)"
        )


def _shown(progress: object) -> list[Callback]:
    """What ``progress`` stands for."""
    if callable(progress):
        return [Told(progress)]
    if progress not in (True, False, None):
        raise InputError(f"progress: True, or a function of a round's record; got {progress!r}")
    return [ProgressBar()] if progress else []


def _check_kinds(loss: object, version: object) -> None:
    if not callable(loss):
        raise InputError(
            f"loss: a function of outputs and labels, such as hw.cross_entropy; got {loss!r}"
        )
    if version is not None and not isinstance(version, str):
        raise InputError(f"version: a word, such as '1'; got {version!r}")


def _federation(
    clients: Sequence[Client] | Federation, test: tuple[Values, Values] | None
) -> Federation:
    if not isinstance(clients, Federation):
        return Federation.of(clients, test)
    return clients if test is None else clients.tested_on(test)


def _measured_before(folder: Path | str | None) -> Kept | None:
    """What a stopped run had measured for its strategy."""
    return None if folder is None else read_measured(_folder(folder))


def _beginning(
    folder: Path | str | None,
    course: Course,
    plan: Callable[[int], Course],
    measured: Kept | None,
) -> tuple[Checkpoint | None, State, list[Record]]:
    """Where the run starts: at the model's parameters, or where the folder's run has got to."""
    start = State.start(course.problem.initial())
    if folder is None:
        return None, start, []
    path = _folder(folder)
    store = Checkpoint(path, course.identity, course.rounds, measured)
    stored = read(path)
    if stored is None:
        store.begin()
        if measured is not None:
            store.keep(start)
        return store, start, []
    planned = course if stored.rounds == course.rounds else plan(stored.rounds)
    check_same(stored, planned, course)
    store.begin(stored.history)
    store.manner = stored.manner
    if planned is course:
        return store, stored.state, stored.history
    # In a longer run every round has a smaller share.
    ledger = Follower(course, stored.history).course.ledger
    weight = weight_after(ledger, stored.state.round)
    return store, replace(stored.state, weight=weight), with_shares(stored.history, ledger)


def _take_up(store: Checkpoint, now: str) -> None:
    """From here on rounds are computed in this manner; say so if earlier ones were in another."""
    if store.manner not in ("", now):
        warnings.warn(
            f"checkpoint: the rounds so far were computed by {store.manner}, those to come are by "
            f"{now}; sums are added in another order, so the last digits may differ from those of "
            "an uninterrupted run (workers= and engine= choose)",
            RuntimeWarning,
            stacklevel=4,
        )
    store.manner = now


def _follow(
    follower: Follower,
    runner: Engine,
    state: State,
    history: list[Record],
    store: Checkpoint | None,
    watching: Callbacks,
) -> tuple[State, Score | None]:
    """Round after round: learn, test, remember, tell; what is finished survives a failure."""
    score: Score | None = None
    course = follower.course
    try:
        names = ("loss", *course.tests.metrics)
        beginning = Beginning(course.rounds, names, history, follower.tested_on_arrival)
        over = torchrun.from_first(lambda: watching.begin(beginning))
        for now, untested in follower.rounds(state, runner) if not over else ():
            state, found = now, _score(course, now)
            score = found or score
            record = untested if found is None else _with_warning(untested, found)
            history.append(record)
            if store:
                store.save(state, record)
            moment = Moment(record, found, partial(_model, course, state))
            # Of several ranks the first is told, and decides for all.
            told = len(watching.each) > 0
            if told and torchrun.from_first(partial(watching.after_round, moment)):
                break
    except BaseException:  # Ctrl-C is one of them
        if store:
            store.rescue()
        raise
    finally:
        watching.end()
    if store:
        store.write()
    return state, score


def _score(course: Course, state: State) -> Score | None:
    """Each client's test of this round's model; None if there is no test after this round."""
    if not course.tests.due(state.round):
        return None
    return course.tests.score(_model(course, state), course.problem)


def _model(course: Course, state: State) -> nn.Module:
    """A copy of the model as it is after a round."""
    return course.problem.load(state.parameters, copy.deepcopy(course.problem.model))


def _with_warning(record: Record, score: Score) -> Record:
    """The record with a test's outcome; clients for whom the model fails are named."""
    failed = score.failed_clients
    if len(failed):
        who = ", ".join(map(str, failed[:10])) + (", …" if len(failed) > 10 else "")
        warnings.warn(
            f"round {record.round}: the test of {len(failed)} clients gives NaN or infinity "
            f"(client {who})",
            RuntimeWarning,
            stacklevel=2,
        )
    return with_score(record, score)


def _folder(folder: Path | str) -> Path:
    if not isinstance(folder, str | os.PathLike):
        raise InputError(f"checkpoint: a folder's path; got {folder!r}")
    check_folder("checkpoint", Path(folder))
    return Path(folder)
