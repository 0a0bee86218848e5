"""``StreamFedAvg``: Algorithm 1 as a Flower strategy, for streams that never stop."""

# ruff: noqa: ARG002 (Flower's strategies have these signatures)

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from headwater.errors import InputError
from headwater.flower import messages
from headwater.flower.checkpoint import Checkpoint
from headwater.flower.driven import DrivenRounds
from headwater.flower.journal import Entry
from headwater.flower.metrics import MetricsServer
from headwater.flower.realised import Happened
from headwater.flower.result import StreamResult
from headwater.flower.session import Session
from headwater.flower.settings import Rate, Settings
from headwater.flower.state import Projection
from headwater.flower.stopping import stop_signals
from headwater.flower.version import check
from headwater.ledger.remembered_online import RememberedOnline
from headwater.ledger.strategies import Strategy as Weighting
from headwater.ledger.strategies import Uniform

log = logging.getLogger("headwater.flower")
Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]
_REMEMBERED = 1000  # rounds whose metrics the result of an endless run has; the journal has all


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
        ask_again: seconds without an answer after which a client is asked again; twice as long
            before every further time.
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
        self._driven: DrivenRounds | None = None

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
        with _folder(settings) as folder, stop_signals() as stop:
            name = settings.fingerprint(len(messages.flatten(initial_arrays)))
            with (
                Checkpoint(folder, name, settings.seed, num_rounds) as store,
                MetricsServer(settings.metrics_port) as metrics,
            ):
                session = Session(
                    grid, initial_arrays, settings, num_rounds, store, stop, train_config
                )
                session.open()
                if session.state.round == 0 and not stop.is_set():
                    _test(evaluate_fn, 0, session, result)
                for entry in session.rounds():
                    metrics.show(entry, session.roster)
                    result.train_metrics_clientapp[entry.round] = MetricRecord(dict(entry.metrics))
                    self._test_at_clients(session, entry.round, evaluate_config, result)
                    _test(evaluate_fn, entry.round, session, result)
                    if num_rounds is None:
                        result.forget(entry.round - _REMEMBERED)
                    if progress:
                        progress(entry)
            result.arrays, result.average = session.arrays, session.average
            result.rounds = session.state.round
            result.happened = _happened(folder) if result.rounds else None
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
        """One round's messages, where a wrapper of Flower's drives the rounds and not ``start``."""
        if self._driven is None:
            self._driven = DrivenRounds(self.settings, grid, arrays)
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


def _test(evaluate: Evaluate | None, number: int, session: Session, result: StreamResult) -> None:
    found = evaluate(number, session.arrays) if evaluate else None
    if found is not None:
        result.evaluate_metrics_serverapp[number] = found


def _happened(folder: Path) -> Happened | None:
    """What was written down; without it a run that has its model does not fail."""
    try:
        return Happened.read(folder)
    except InputError as error:
        log.warning("no ledger: %s", error)
        return None


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
