"""A table of one's own as a task: timestamped rows of several clients, and a model.

The run ends where the last fifth of the rows begins, which is for testing; learning rates are
chosen on the fifth before. In between, the rounds divide the time evenly. A fraction of the clients
is historical: they have all their rows from the start. The others see theirs when they came and
keep the newest. If it is told when history ends, that decides instead who is historical, as in
:meth:`headwater.Federation.from_frame`. Features are scaled by mean and deviation over what the
historical clients learn from.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from headwater.errors import InputError
from headwater.experiments.tasks.models import Dense, seeded
from headwater.experiments.tasks.partition import historical_clients
from headwater.experiments.tasks.scaling import Scaling, outlier
from headwater.experiments.tasks.task import Defaults, Split
from headwater.learning.clock import Clock, Times, point
from headwater.learning.columns import Columns, columns
from headwater.learning.frames import (
    Flags,
    FrameFederation,
    Stream,
    end_of_learning,
    federation,
    one_class,
    read_stream,
    tell_of_strangers,
)
from headwater.learning.losses import cross_entropy, squared_error
from headwater.ledger.memory import Fifo

HIDDEN = 64
"""Units of the hidden layer if no model is given."""
MOST_CLASSES = 1000
"""Of labels that are whole numbers; with more of them, the column is hardly one of classes."""
MANY_CLASSES = 30
"""So many classes of whole numbers may well be numbers to forecast."""
_LATE = 0.99
"""Of the run's time; a stream half of whose rows come after that has a wrong time at its start."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OwnTable:
    """Rows of a table, learned from in the rounds in which they came.

    Attributes:
        frame: A table or the path of one, as :meth:`headwater.Federation.from_frame` takes it.
        client: The column that names each row's client.
        time: The column of times.
        label: The column of labels: fractions are learned by squared error, all else by
            cross-entropy.
        features: The columns of features; None stands for all others.
        regression: Labels are numbers to forecast, also if they are whole.
        net: Makes the model. It is called with ``features`` and ``outputs``, how many of each there
            are, if it takes these; None stands for one hidden layer.
        capacity: How many of its newest rows a client keeps.
        historical_before: When history ends; None leaves it to the fraction who is historical.
        test: The last fraction of the rows, which is for testing.
    """

    frame: Any
    client: str
    time: str
    label: str
    features: Sequence[str] | None = None
    regression: bool = False
    net: Callable[..., nn.Module] | None = None
    capacity: int = 50
    historical_before: Any = None
    test: float = 0.2

    fraction_of: ClassVar[str] = "clients"
    complete: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The file's own name, without its ending."""
        if isinstance(self.frame, str | Path):
            return Path(self.frame).name.partition(".")[0]
        return "table"

    @property
    def defaults(self) -> Defaults:
        """A hundred rounds, by the loss that suits the labels."""
        return Defaults(rounds=100, batch_size=32, loss=self._loss)

    @cached_property
    def stream(self) -> Stream:
        """The rows; read once, and shared by processes that are forked afterwards."""
        table = columns(self.frame, (self.client, self.time, self.label))
        stream = read_stream(table, self.client, self.time, self.label, self.features)
        if self.regression and not stream.y.is_floating_point():
            stream = self._as_numbers(table, stream)
        _check_scales(table, stream.features)
        tell_of_strangers(stream, stream.known_before(self._end(stream)))
        if stream.y.is_floating_point():
            _check_scales(table, (self.label,))
            return stream
        return _numbered_from_0(stream, table, self.label)

    def _as_numbers(self, table: Columns, stream: Stream) -> Stream:
        if stream.classes:
            raise InputError(
                f"regression: labels of {table.source}, column {self.label!r}, are words, such as "
                f"{stream.classes[0]!r}; leave it out, or name a column of numbers"
            )
        return replace(stream, y=stream.y.float())

    def in_words(self, rounds: int) -> str:
        """What is learned from what, in one line: for a user to see that it is what was meant."""
        stream = self.stream
        kind = "numbers" if stream.y.is_floating_point() else f"{self.outputs} classes"
        if not stream.y.is_floating_point() and self.outputs > MANY_CLASSES:
            kind += " (--regression if they are numbers to forecast)"
        return (
            f"{self.name}: {len(stream.times):,} rows of {len(stream.clients):,} clients "
            f"({self.client}), {rounds:,} rounds; features: {', '.join(stream.features)}; "
            f"label {self.label}: {kind}"
        )

    def split(self, historical: float, rounds: int, seed: int) -> Split:
        """The clients, some historical; the last rows are for testing, those before to tune by."""
        end = self._end(self.stream)
        everyone = self.stream.known_before(end)
        learned = everyone.until(end)
        earlier = self._end(learned)
        return Split(
            tuning=self._federation(
                learned.known_before(earlier), earlier, historical, rounds, seed
            ),
            final=self._federation(everyone, end, historical, rounds, seed),
        )

    def _end(self, stream: Stream) -> float:
        """Where the rows to test by begin."""
        try:
            return end_of_learning(stream, self.test)
        except InputError:
            raise InputError(
                f"{self.name}: {len(stream.times)} rows with {len(np.unique(stream.times))} "
                "different times are too few: the last fifth of the rows is for testing, the fifth "
                "before for choosing the learning rate; give more rows"
            ) from None

    def model(self, seed: int) -> nn.Module:
        """The user's own, or one hidden layer."""
        sizes = {"features": self.stream.x.shape[1], "outputs": self.outputs}
        if self.net is None:
            return Dense(sizes["features"], HIDDEN, sizes["outputs"], seed)
        taken = inspect.signature(self.net).parameters
        with seeded(seed):
            return self.net(**{name: size for name, size in sizes.items() if name in taken})

    @property
    def outputs(self) -> int:
        """How many numbers a model has to give: one for each class, or the one to forecast."""
        if self.stream.y.is_floating_point():
            return 1
        return int(self.stream.y.max()) + 1

    @property
    def _loss(self) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        return squared_error if self.stream.y.is_floating_point() else cross_entropy

    def _federation(
        self, stream: Stream, end: float, historical: float, rounds: int, seed: int
    ) -> FrameFederation:
        old = self._old(stream, end, historical, seed)
        seen = (stream.times < end) & old[stream.owner]
        x = stream.x.double().numpy()
        scaled = replace(stream, x=torch.from_numpy(Scaling.of(x[seen])(x)))
        fresh = stream.times[(stream.times < end) & ~old[stream.owner]]
        begin = float(fresh.min())
        if self.historical_before is not None:
            begin = point(self.historical_before, "historical_before", stream.numeric)
        clock = Clock(begin, (end - begin) / rounds, stream.numeric)
        self._check_times(fresh, clock, end)
        return federation(scaled, end, clock, old, Fifo(self.capacity))

    def _check_times(self, times: Times, clock: Clock, end: float) -> None:
        """Refuse a first time so early that nearly all of the run would be an empty wait."""
        late = (np.median(times) - clock.begin) / (end - clock.begin)
        if self.historical_before is None and late > _LATE:
            raise InputError(
                f"{self.name}, column {self.time!r}: the first time, {clock.words[0]}, is so long "
                "before the others that half of the rows would come in the last hundredth of the "
                "run; mend or drop such rows, or say when history ends (historical_before)"
            )

    def _old(self, stream: Stream, end: float, historical: float, seed: int) -> Flags:
        """Who is historical: by time if it is told when history ends, else by lot."""
        if self.historical_before is None:
            return historical_clients(len(stream.clients), historical, seed)
        cut = point(self.historical_before, "historical_before", stream.numeric)
        old = stream.historical(end, cut, ())
        if old.all() or not old.any():
            kind = "every client" if old.all() else "no client"
            raise InputError(
                f"historical_before: {kind} has all its rows before {self.historical_before}; a "
                "comparison needs clients of both kinds, so give another moment, or none"
            )
        return np.asarray(old)


def _check_scales(table: Columns, names: Sequence[str]) -> None:
    """Refuse a value beside which the rest of its column would count for nothing."""
    for name in names:
        values = table.numbers(name).astype(np.float64)
        row = outlier(values)
        if row is not None:
            raise InputError(
                f"{table.place(name, row)}: {values[row]:g} is so far from the others (half of "
                f"them are below {np.median(values):g}) that scaled by the deviation they would "
                "all be the same; mend or drop such rows, or take the column's logarithm"
            )


def _numbered_from_0(stream: Stream, table: Columns, label: str) -> Stream:
    """The stream with labels 0, 1, 2, …, whatever whole numbers stood for the classes."""
    found, numbers = torch.unique(stream.y, return_inverse=True)
    if len(found) == 1:
        raise one_class(table, label, int(found[0]))
    if len(found) > MOST_CLASSES:
        raise InputError(
            f"{table.source}, column {label!r}: labels that are whole numbers are classes, at most "
            f"{MOST_CLASSES:,} of them; there are {len(found):,}, such as {int(found[-1])}. To "
            "forecast numbers, say regression"
        )
    if len(found) == int(found[-1]) + 1 and int(found[0]) == 0:
        return stream
    some = ", ".join(map(str, found[:5].tolist())) + (", …" if len(found) > 5 else "")
    _log.warning("labels %s of column %r are the classes 0 to %d", some, label, len(found) - 1)
    return replace(stream, y=numbers, classes=tuple(found.tolist()))
