"""Rounds that somebody else drives: Flower's wrappers call a strategy's hooks, not its ``start``.

Differential privacy on the server is such a wrapper. There is no checkpoint then, and nobody is
asked again; and as Flower does not tell how many rounds will come, declared arrivals are treated as
live ones.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid

from headwater.errors import InputError
from headwater.flower import messages
from headwater.flower.checkpoint import Checkpoint
from headwater.flower.session import Session
from headwater.flower.settings import Settings
from headwater.flower.tally import Tally


class DrivenRounds:
    """A session whose messages somebody else sends.

    Args:
        settings: how the run goes.
        grid: Flower's connection to the nodes.
        arrays: the model to begin with.
    """

    def __init__(self, settings: Settings, grid: Grid, arrays: ArrayRecord) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="headwater-")
        store = Checkpoint(Path(self._home.name), "driven", settings.seed)
        # Who was absent does not count more later: noise is scaled to what a client may count.
        settings = replace(settings, catch_up=1.0)
        self._session = Session(grid, arrays, settings, None, store, threading.Event())
        self._session.open()
        self._tally: Tally | None = None
        self._sent: dict[int, Message] = {}
        self._began = 0.0

    def messages(self, number: int, arrays: ArrayRecord, config: ConfigRecord) -> list[Message]:
        """What the planned clients are to be asked, from these parameters on."""
        self._session.replace_parameters(arrays)
        self._began = time.monotonic()
        self._tally = tally = self._session.prepare(number)
        assert tally is not None  # nobody sets this session's stop
        self._sent = {m: self._message(tally, m, arrays, config) for m in tally.place}
        return list(self._sent.values())

    def _message(self, tally: Tally, m: int, arrays: ArrayRecord, config: ConfigRecord) -> Message:
        content = self._session.request(tally.plan, tally.place[m], arrays)
        for key, value in config.items():
            content.config_records["config"][key] = value
        node = self._session.roster[m].node
        return Message(content=content, dst_node_id=node, message_type=messages.TRAIN)

    def aggregate(
        self, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Add up the replies that came."""
        if self._tally is None:
            raise InputError("aggregate_train before configure_train: no round was planned")
        # A message has its number only once it was sent: look them up now.
        sender = {sent.metadata.message_id: m for m, sent in self._sent.items()}
        for reply in replies:
            m = sender.get(reply.metadata.reply_to_message_id)
            if m is not None:
                self._tally.take(m, reply)
        entry = self._session.finish(self._tally, self._began)
        return self._session.arrays, MetricRecord(dict(entry.metrics))
