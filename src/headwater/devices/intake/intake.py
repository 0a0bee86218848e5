"""From messages to the memory, in one transaction per batch.

With the samples, in the same transaction: what waits for labels, the dead letters, the counters,
the prequential sums, and how far the source was read. So after a crash all of them fit together.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from headwater.devices.intake.dead_letters import DeadLetters
from headwater.devices.intake.mapping import Mapped, Message, Rows, SampleMapping
from headwater.devices.intake.prequential import Prequential, Score
from headwater.devices.intake.rate import RecentRate
from headwater.devices.intake.seen import SeenIds
from headwater.devices.intake.waiting import WaitingSamples
from headwater.devices.logs import Sparingly
from headwater.devices.memory import Batch, DurableMemory

log = logging.getLogger(__name__)
T = TypeVar("T")


class Intake:
    """The way into a memory.

    Args:
        memory, mapping, waiting, dead_letters: where samples, halves and the others go.
        seen: by which a sample that comes again is known; None: all are taken.

    Attributes:
        score: how to predict samples before they enter; None: not now.
        round: the round that arriving samples are recorded with.
        rate: samples per second, recently.
    """

    def __init__(
        self,
        memory: DurableMemory,
        mapping: SampleMapping,
        waiting: WaitingSamples,
        dead_letters: DeadLetters,
        seen: SeenIds | None = None,
    ) -> None:
        self.memory, self.mapping = memory, mapping
        self.waiting, self.dead_letters, self._seen = waiting, dead_letters, seen
        self.prequential = Prequential(memory.state)
        self.score: Score | None = None
        self.round: int | None = None
        self.rate = RecentRate(time.monotonic())
        self._sparingly = Sparingly(log)

    def take(self, messages: Sequence[Message], remember: Callable[[], None] | None = None) -> None:
        """Take in messages, and in the same transaction remember how far their source was read."""
        mapped = self.mapping.map(messages)
        with self.memory.database.transaction():
            whole = self._whole(mapped)
            batch = self._once(join(whole)) if whole else None
            if batch is not None:
                self._enter(batch, self.round)
            self.refuse(mapped.wrong)
            self.memory.state.add("messages", len(messages))
            if remember is not None:
                remember()
        # the rate is of what is safe, so it is counted after the transaction
        self.rate.add(0 if batch is None else len(batch), time.monotonic())

    def enter(self, batch: Batch, round: int) -> None:
        """Take in samples that are mapped already, of a known round."""
        with self.memory.database.transaction():
            self._enter(batch, round)
        self.rate.add(len(batch), time.monotonic())

    def refuse(self, wrong: Sequence[tuple[Message, str]]) -> None:
        """Count dead letters, keep some, tell of a few."""
        if not wrong:
            return
        self.memory.state.add("malformed", len(wrong))
        self.dead_letters.add(wrong)
        self._sparingly.warning("malformed message", len(wrong), reason=wrong[-1][1])

    def _whole(self, mapped: Mapped) -> list[Rows]:
        """The samples that have features and label now, in the order of the messages."""
        whole = []
        for rows in mapped.parts:
            if rows.y is None:
                self._let_wait(rows)
            elif rows.x is None:
                joined = self.waiting.join(rows)
                if joined is None:
                    label = {"id": rows.ids[0], "label": float(rows.y[0])}
                    mapped.wrong.append((label, "no sample waits for this label"))
                else:
                    whole.append(joined)
            else:
                whole.append(rows)
        return whole

    def _once(self, batch: Batch) -> Batch | None:
        """Without the samples that have come before, if their ids are looked at."""
        if self._seen is None or batch.ids is None:
            return batch
        new = self._seen.new(batch.ids)
        repeated = len(batch) - len(new)
        if not repeated:
            return batch
        self.memory.state.add("repeated", repeated)
        self._sparingly.warning("sample came again", repeated)
        return batch.at(new) if new else None

    def _let_wait(self, rows: Rows) -> None:
        given_up = self.waiting.add(rows)
        self.memory.state.add("unlabelled", given_up)
        if given_up:
            self._sparingly.warning("label did not come in time", given_up)

    def _enter(self, batch: Batch, round: int | None) -> None:
        x, y = self.memory.schema.arrays(batch.x, batch.y)
        if self.score is not None:
            self.prequential.add(*self.score(x, y))
        self.memory.take_in(Batch(x, y, batch.ids, batch.times), round)


def join(whole: Sequence[Rows]) -> Batch:
    """Samples that have features and labels, one after the other."""
    features = [rows.x for rows in whole if rows.x is not None]
    labels = [rows.y for rows in whole if rows.y is not None]
    ids = [id for rows in whole for id in rows.ids]
    times = [time for rows in whole for time in rows.times]
    x, y = (part[0] if len(part) == 1 else np.concatenate(part) for part in (features, labels))
    return Batch(x, y, _if_any(ids), _if_any(times))


def _if_any(values: list[T | None]) -> list[T | None] | None:
    """None where nobody has one: then the memory need not look for them."""
    return None if values.count(None) == len(values) else values
