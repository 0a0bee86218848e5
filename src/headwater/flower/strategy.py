"""``StreamFedAvg``: Algorithm 1 as a Flower strategy, for streams that never stop."""

# ruff: noqa: ARG002 (Flower's strategies have these signatures)

from __future__ import annotations

import logging
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from headwater.errors import InputError
from headwater.flower import messages
from headwater.flower.checkpoint import Checkpoint
from headwater.flower.journal import Entry
from headwater.flower.metrics import MetricsServer
from headwater.flower.realised import read_ledger
from headwater.flower.session import Session
from headwater.flower.settings import Rate, Settings
from headwater.flower.state import Projection
from headwater.flower.tally import Tally
from headwater.flower.version import check
from headwater.ledger.ledger import Ledger
from headwater.ledger.remembered_online import RememberedOnline
from headwater.ledger.strategies import Strategy as Weighting
from headwater.ledger.strategies import Uniform

log = logging.getLogger("headwater.flower")
Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]


@dataclass
class StreamResult(Result):
    """What a run gives back: Flower's result, and what Flower does not have.

    Attributes:
        average: θ̄, the q-weighted average of the iterates; ``arrays`` is the last one.
        ledger: who held what with what share, as it happened; None before the first round.
        rounds: rounds done, those before a restart included.
    """

    average: ArrayRecord = field(default_factory=ArrayRecord)
    ledger: Ledger | None = None
    rounds: int = 0


class StreamFedAvg(Strategy):
    """One model from many streams: FedAvg with planned, server-side shares p_m(t).

    Args:
        strategy: how much each client counts: ``hw.Uniform()``, ``hw.Optimal(0.15)``, …; None:
            ``Uniform`` for runs with an end, ``RememberedOnline()`` for others.
        local_steps: E, gradient steps of a client in a round.
        batch_size: K; None: the whole memory.
        learning_rate: η, a number or a function of the round.
        seed: of batches, of the choice of clients, and of declared arrivals.
        projection: Θ, such as ``hw.Ball(10)``.
        participation: how many clients are asked in a round (2), or which fraction (0.2).
        norm_limit: the longest update θ_m − θ that counts; longer ones are refused.
        min_clients: clients that must be there before round 1.
        quorum: the part of a round's shares that must have come before it can end.
        deadline: seconds after which a round ends without those who are missing; None: what
            ``start(timeout=…)`` says.
        ttl: seconds after which Flower drops a message; None: the deadline and a minute.
        ask_again: seconds without an answer after which a client is asked again.
        patience: seconds below the quorum after which the run is given up; None: never.
        catch_up: how many times its share a client that is often absent may count.
        evaluate_every: rounds between tests at the clients; 0: none.
        checkpoint: a folder; a run that was stopped, or killed, goes on from there.
        metrics_port: Prometheus text on http://127.0.0.1:port/metrics; None: off.

    Example:
        strategy = StreamFedAvg(hw.Uniform(), local_steps=5, learning_rate=0.1, checkpoint="run")
        result = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=100)
    """

    def __init__(
        self,
        strategy: Weighting | None = None,
        *,
        local_steps: int = 1,
        batch_size: int | None = None,
        learning_rate: Rate = 0.1,
        seed: int = 0,
        projection: Projection | None = None,
        participation: float | None = None,
        norm_limit: float | None = None,
        min_clients: int = 1,
        quorum: float = 0.5,
        deadline: float | None = None,
        ttl: float | None = None,
        ask_again: float = 20.0,
        patience: float | None = 3600.0,
        catch_up: float = 4.0,
        evaluate_every: int = 0,
        checkpoint: Path | str | None = None,
        metrics_port: int | None = None,
    ) -> None:
        check()
        self.settings = Settings(
            strategy=Uniform() if strategy is None else strategy,
            local_steps=local_steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            seed=seed,
            projection=projection,
            participation=participation,
            norm_limit=norm_limit,
            min_clients=min_clients,
            quorum=quorum,
            deadline=deadline,
            ttl=ttl,
            ask_again=ask_again,
            patience=patience,
            catch_up=catch_up,
            evaluate_every=evaluate_every,
            checkpoint=None if checkpoint is None else Path(checkpoint),
            metrics_port=metrics_port,
        )
        self._chosen = strategy is not None
        self._driven: _Driven | None = None

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int | None = 3,
        timeout: float = 600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
        progress: Callable[[Entry], None] | None = None,
    ) -> StreamResult:
        """Learn; returns the last iterate, the average, and the ledger of what happened.

        Args:
            grid: Flower's connection to the nodes.
            initial_arrays: the model to begin with; a resumed run begins with its checkpoint.
            num_rounds: T; None: until a signal (SIGTERM, SIGINT) ends the run.
            timeout: seconds for a round, unless the strategy has a deadline.
            train_config: settings of your own that are sent along with training requests.
            evaluate_config: the same for tests.
            evaluate_fn: tests the model here, after every round, and before the first.
            progress: called with each round's entry of the journal.
        """
        if num_rounds is not None and num_rounds < 1:
            raise InputError(f"num_rounds: at least 1, or None for no end; got {num_rounds}")
        settings = _with_deadline(self.settings, timeout)
        if num_rounds is None and not self._chosen:
            settings = replace(settings, strategy=RememberedOnline())
        result = StreamResult()
        with _folder(settings) as folder, _stop_signals() as stop:
            size = len(messages.flatten(initial_arrays))
            name = settings.fingerprint(size, num_rounds)
            with (
                Checkpoint(folder, name, settings.seed) as store,
                MetricsServer(settings.metrics_port) as metrics,
            ):
                session = Session(
                    grid, initial_arrays, settings, num_rounds, store, stop, train_config
                )
                session.open()
                if session.state.round == 0 and not stop.is_set():
                    _test(evaluate_fn, 0, session, result)
                for entry in _rounds(session, num_rounds):
                    metrics.show(entry, session.roster)
                    result.train_metrics_clientapp[entry.round] = MetricRecord(dict(entry.metrics))
                    self._test_at_clients(session, entry.round, evaluate_config, result)
                    _test(evaluate_fn, entry.round, session, result)
                    if progress:
                        progress(entry)
            result.arrays, result.average = session.arrays, session.average
            result.rounds = session.state.round
            result.ledger = read_ledger(folder) if result.rounds else None
        return result

    def _test_at_clients(
        self, session: Session, number: int, config: ConfigRecord | None, result: StreamResult
    ) -> None:
        every = self.settings.evaluate_every
        if every and number % every == 0:
            found = session.evaluate(number, config)
            result.evaluate_metrics_clientapp[number] = MetricRecord(dict(found))

    # ------------------------------------------------------------------ driven by somebody else

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """One round's messages, where a wrapper of Flower's drives the rounds and not ``start``.

        Differential privacy on the server is such a wrapper. There is no checkpoint then, nobody
        is asked again, and as Flower does not tell how many rounds will come, declared arrivals
        are treated as live ones.
        """
        if self._driven is None:
            self._driven = _Driven(self.settings, grid, arrays)
        return self._driven.messages(server_round, arrays, config)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Add up one round's replies with the planned shares."""
        if self._driven is None:
            raise InputError("aggregate_train before configure_train: no round was planned")
        return self._driven.aggregate(replies)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """None: tests at the clients belong to ``start``."""
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Nothing to add up."""
        return None

    def summary(self) -> None:
        """Log how the run goes."""
        for name, value in vars(self.settings).items():
            log.info("%s = %s", name, value)


class _Driven:
    """A session whose messages somebody else sends."""

    def __init__(self, settings: Settings, grid: Grid, arrays: ArrayRecord) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="headwater-")
        store = Checkpoint(Path(self._home.name), "driven")
        self._session = Session(grid, arrays, settings, None, store, threading.Event())
        self._session.open()
        self._tally: Tally | None = None
        self._sent: dict[int, list[Message]] = {}
        self._began = 0.0

    def messages(self, number: int, arrays: ArrayRecord, config: ConfigRecord) -> list[Message]:
        self._session.replace_parameters(arrays)
        self._began = time.monotonic()
        self._tally = tally = self._session.prepare(number)
        self._sent = {m: [self._message(tally, m, arrays, config)] for m in tally.place}
        return [message for group in self._sent.values() for message in group]

    def _message(self, tally: Tally, m: int, arrays: ArrayRecord, config: ConfigRecord) -> Message:
        content = self._session.request(tally.plan, tally.place[m], arrays)
        for key, value in config.items():
            content.config_records["config"][key] = value
        node = self._session.roster[m].node
        return Message(content=content, dst_node_id=node, message_type=messages.TRAIN)

    def aggregate(
        self, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        assert self._tally is not None
        # A message has its number only once it was sent: look them up now.
        sender = {s.metadata.message_id: m for m, group in self._sent.items() for s in group}
        for reply in replies:
            m = sender.get(reply.metadata.reply_to_message_id)
            if m is not None:
                self._tally.take(m, reply)
        entry = self._session.finish(self._tally, self._began)
        return self._session.arrays, MetricRecord(dict(entry.metrics))


def _rounds(session: Session, last: int | None) -> Iterator[Entry]:
    """Round after round, until the last or a signal."""
    while not session.stop.is_set() and (last is None or session.state.round < last):
        entry = session.round(session.state.round + 1)
        if entry is None:
            return
        came, planned = sum(share > 0 for share in entry.counted), len(entry.client)
        log.info(
            "round %d: %d of %d clients, %.1f s, %s",
            entry.round,
            came,
            planned,
            entry.seconds,
            entry.metrics,
        )
        yield entry


def _test(evaluate: Evaluate | None, number: int, session: Session, result: StreamResult) -> None:
    found = evaluate(number, session.arrays) if evaluate else None
    if found is not None:
        result.evaluate_metrics_serverapp[number] = found


def _with_deadline(settings: Settings, timeout: float) -> Settings:
    return settings if settings.deadline else replace(settings, deadline=float(timeout))


@contextmanager
def _folder(settings: Settings) -> Iterator[Path]:
    """The run's folder; without one the run is kept for as long as it goes."""
    if settings.checkpoint is not None:
        yield settings.checkpoint
        return
    with tempfile.TemporaryDirectory(prefix="headwater-") as home:
        yield Path(home)


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set while a run goes on; Flower's own handlers come back.

    Signals can only be caught in the main thread, where Flower runs a ServerApp.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: stop.set()) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
