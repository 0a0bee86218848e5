"""The resident node: what it answers when it is asked.

It holds the memory, the model and the stream's way in. Requests come as frames
(:mod:`headwater.devices.wire`), one at a time where they train. Replies have counts, means and
moves of parameters in them, never a sample.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import numpy as np
import torch

from headwater.devices.intake import Intake
from headwater.devices.intake.dead_letters import DeadLetters
from headwater.devices.intake.mapping import SampleMapping
from headwater.devices.intake.seen import SeenIds
from headwater.devices.intake.waiting import WaitingSamples
from headwater.devices.memory import DurableMemory
from headwater.devices.memory.database import Database
from headwater.devices.node.models import metric_of, problem_of
from headwater.devices.node.replies import StoredReplies, digest_of
from headwater.devices.node.scorer import Scorer
from headwater.devices.node.training import (
    RefusedError,
    TrainRequest,
    check_parameters,
    local_move,
    rehearse,
    select,
)
from headwater.devices.settings import NodeSettings
from headwater.devices.sources.recording import Recording, RoundReplay
from headwater.devices.wire import Frame
from headwater.errors import InputError

log = logging.getLogger(__name__)


class Node:
    """One client of a federation, as long as its process lives.

    Attributes:
        intake: the stream's way into the memory.
    """

    def __init__(self, settings: NodeSettings, pages: int | None = None) -> None:
        self.settings = settings
        mapping = SampleMapping(settings.samples, settings.limits.message_bytes)
        self.problem = problem_of(mapping.schema, settings.model)
        metric = metric_of(settings.model)
        self._scorer, self._tester = Scorer(self.problem, metric), Scorer(self.problem, metric)
        self._test = Recording.read(settings.test.csv, mapping).batch if settings.test else None
        self._replay = RoundReplay.of(settings.source, mapping, settings.m, settings.seed)
        self._training = threading.Lock()
        self._open(mapping, pages)

    def _open(self, mapping: SampleMapping, pages: int | None) -> None:
        """The memory and all that is kept with it; last, when the settings have proved right."""
        settings = self.settings
        rule = settings.memory.make()
        self.database = Database(settings.folder / "memory.db", settings.memory.survives, pages)
        try:
            self.memory = DurableMemory(
                self.database,
                rule,
                mapping.schema,
                settings.m,
                settings.seed,
                settings.samples.meaning,
            )
        except InputError:
            self.database.close()
            raise
        limit = settings.samples.late_labels
        waiting = WaitingSamples(self.database, mapping.schema.features, limit)
        dead_letters = DeadLetters(self.database, settings.limits.dead_letters)
        once = settings.samples.once
        seen = SeenIds(self.database, once) if once else None
        self.intake = Intake(self.memory, mapping, waiting, dead_letters, seen)
        self._replies = StoredReplies(self.database)
        self._count_wrong_rows()

    def warm_up(self) -> float:
        """Do what a first round would: PyTorch loads half of itself then. Returns the seconds."""
        started = time.monotonic()
        rehearse(self.problem)
        self._tester(*self.memory.schema.corners())
        return time.monotonic() - started

    def answer(self, request: Frame) -> Frame:
        """Do what is asked; a refusal is an answer, too."""
        doing = {"describe": self.describe, "train": self.train, "evaluate": self.evaluate}
        do = doing.get(str(request.header.get("do")))
        try:
            if do is None:
                raise RefusedError("bad request", "do: one of " + ", ".join(doing))
            return do(request)
        except RefusedError as refused:
            log.warning("request refused", extra={"code": refused.code, "why": str(refused)})
            return refused.frame()

    def describe(self, request: Frame | None = None) -> Frame:  # noqa: ARG002 (all are alike)
        """Who this client is, how many samples came, and what it can keep."""
        schema = self.memory.schema
        declared = None if self._replay is None else self._replay.declared
        return Frame(
            {
                "client": self.settings.client,
                "number": self.settings.m,
                "seed": self.settings.seed,
                "memory": type(self.memory.rule).__name__,
                "capacity": self.memory.rule.capacity,
                "historical": declared is not None and declared["kind"] == "once",
                "declared": declared,
                "schema": {
                    "features": {"shape": list(schema.features), "dtype": schema.feature_type},
                    "label": {"dtype": schema.label_type, "range": [schema.low, schema.high]},
                },
                "parameters": self.problem.size,
                "test_samples": 0 if self._test is None else len(self._test),
                **self._counts(),
            }
        )

    def train(self, request: Frame) -> Frame:
        """The local steps of a round; the same request gets the same reply, done once."""
        order = TrainRequest.of(request)
        with self._training:
            digest = digest_of(request)
            stored = self._replies.find(order.run, digest)
            if stored is not None:
                return stored
            last = self._replies.last_round(order.run)
            if last is not None and order.round < last:
                raise RefusedError("stale", f"round {order.round} is over; round {last} was done")
            reply = self._work(order, request)
            self._replies.store(order.run, order.round, digest, reply)
        return reply

    def evaluate(self, request: Frame) -> Frame:
        """How good a model is on samples that this client never trains on."""
        parameters = check_parameters(self.problem, request.arrays.get("parameters"))
        if self._test is None:
            raise RefusedError("no test samples", "[test] is not in this node's settings")
        with self._training:
            self._tester.load(parameters)
            losses, metrics = self._tester(self._test.x, self._test.y)
        means = {"loss": float(losses.mean()), "metric": float(metrics.mean())}
        return Frame({"count": len(losses), **{k: _finite(v) for k, v in means.items()}})

    def close(self) -> None:
        """Let others open the memory."""
        self.database.close()

    def _work(self, order: TrainRequest, request: Frame) -> Frame:
        started, cpu = time.monotonic(), time.thread_time()
        parameters = check_parameters(self.problem, request.arrays.get("parameters"))
        self._set_model(parameters)
        self._let_arrive(order.round)
        with self.database.transaction():  # what is told is what is trained on, not what came since
            snapshot, counts = self.memory.snapshot(), self._counts()
        weights = select(snapshot, request)
        move, gradients = local_move(self.problem, snapshot, weights, order, parameters)
        cost = {"seconds": time.monotonic() - started, "cpu": time.thread_time() - cpu}
        extra = {"run": order.run, "round": order.round, "held": len(weights), **cost}
        log.info("trained", extra=extra)
        header = {"run": order.run, "round": order.round, "samples": gradients, **counts}
        return Frame(header, {"move": move.numpy()})

    def _set_model(self, parameters: torch.Tensor) -> None:
        """From now on new samples are predicted with these parameters."""
        with self.database.transaction():  # not while a batch is being predicted
            self._scorer.load(parameters)
            self.intake.score = self._scorer if self.settings.prequential else None

    def _let_arrive(self, round: int) -> None:
        """What a replay by rounds brings up to this round; a live stream is only told of it."""
        self.intake.round = round + 1
        if self._replay is not None:
            for now, batch in self._replay.until(round, self.memory.arrived):
                self.intake.enter(batch, now)

    def _counts(self) -> dict[str, Any]:
        now = time.monotonic()
        return {
            "arrived": self.memory.arrived,
            "held": self.memory.held,
            "rate": self.intake.rate.per_second(now),
            "prequential": {
                name: _finite(value) for name, value in self.intake.prequential.report().items()
            },
        }

    def _count_wrong_rows(self) -> None:
        """Dead letters of a recording are counted once, not at every start."""
        if self._replay is not None and self.memory.state.get("recording") is None:
            with self.database.transaction():
                self.intake.refuse(self._replay.wrong)
                self.memory.state.set("recording", len(self._replay.wrong))


def _finite(value: float | int | None) -> float | int | None:
    return None if value is None or not np.isfinite(value) else value
