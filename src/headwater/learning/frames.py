"""From a table of timestamped rows to a federation: wall-clock time becomes rounds."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwater.errors import InputError
from headwater.learning.clock import Clock, Span, Times, point, span
from headwater.learning.columns import Columns, columns
from headwater.learning.federation import Federation, Part
from headwater.ledger.arrivals import Once
from headwater.ledger.memory import Keep, Memory
from headwater.ledger.recorded import Recorded

Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class FrameFederation(Federation):
    """A federation that knows which table it came from.

    Attributes:
        clients: The clients' names, in the order of their numbers.
        features: The columns that ``x`` consists of.
        classes: The names of the classes 0, 1, 2, … if the labels were words; else empty.
        rounds: How many rounds it takes until the last row has arrived, T.
        begin: When round 1 begins: a moment, or a number if times are numbers.
        width: How long a round lasts: a time span, or a number.
    """

    clients: tuple[Any, ...] = ()
    features: tuple[str, ...] = ()
    classes: tuple[Any, ...] = ()
    rounds: int = 1
    begin: Any = None
    width: Any = None


@dataclass(frozen=True)
class Stream:
    """A table's rows, client after client, each in order of time.

    Attributes:
        x: Features.
        y: Labels.
        owner: The number of each row's client.
        times: When each row came.
        numeric: Whether times are numbers of the user's own.
        clients: The clients' names.
        features: The columns of ``x``.
        classes: What labels stand for if they were words.
    """

    x: Tensor
    y: Tensor
    owner: Numbers
    times: Times
    numeric: bool
    clients: NDArray[Any]
    features: tuple[str, ...]
    classes: tuple[Any, ...]

    def part(self, chosen: Flags) -> Part:
        """Some of the rows, by client."""
        counts = np.bincount(self.owner[chosen], minlength=len(self.clients))
        return Part(self.x, self.y, _offsets(counts), np.flatnonzero(chosen))

    def until(self, end: float) -> Stream:
        """The rows before a moment."""
        return self._rows(self.times < end)

    def known_before(self, end: float) -> Stream:
        """The stream of the clients that have a row before a moment, numbered anew."""
        there = np.bincount(self.owner[self.times < end], minlength=len(self.clients)) > 0
        if there.all():
            return self
        kept = self._rows(there[self.owner])
        return replace(kept, owner=(np.cumsum(there) - 1)[kept.owner], clients=self.clients[there])

    def historical(self, end: float, cut: float | None, named: Collection[Any]) -> Flags:
        """The clients that are named, and those who have nothing from the cut on to ``end``."""
        unknown = [name for name in named if name not in self.clients]
        if unknown:
            some = ", ".join(map(repr, self.clients[:5].tolist()))
            more = ", …" if len(self.clients) > 5 else ""
            raise InputError(f"historical: no client {unknown[0]!r}; there are: {some}{more}")
        old = np.isin(self.clients, list(named))
        if cut is not None:
            late = (self.times < end) & (self.times >= cut)
            old |= np.bincount(self.owner[late], minlength=len(old)) == 0
        return old

    def _rows(self, chosen: Flags) -> Stream:
        at = torch.from_numpy(np.flatnonzero(chosen))
        owner, times = self.owner[chosen], self.times[chosen]
        return replace(self, x=self.x[at], y=self.y[at], owner=owner, times=times)


def read_stream(
    frame: Any, client: str, time: str, label: str, features: Sequence[str] | None
) -> Stream:
    """A table's rows, checked: errors name column and row, and say how to mend them."""
    table = columns(frame, (client, time, label))
    chosen = _chosen(table, client, time, label, features)
    x = np.column_stack([table.numbers(name) for name in chosen])
    y, classes = _labels(table, label)
    times = table.times(time)
    clients, owner = np.unique(table.words(client), return_inverse=True)
    order = np.argsort(owner, kind="stable")
    _check_order(table, time, client, order, owner, times)
    return Stream(
        torch.from_numpy(x.astype(np.result_type(x.dtype, np.float32))[order]),
        torch.from_numpy(y[order]),
        owner[order],
        times[order],
        table[time].dtype.kind in "iuf",
        clients,
        tuple(chosen),
        classes,
    )


def from_frame(
    frame: Any,
    client: str,
    time: str,
    label: str,
    features: Sequence[str] | None = None,
    round: Span = "1h",
    memory: Memory | None = None,
    historical_before: Any = None,
    historical: Collection[Any] = (),
    test: Any = None,
) -> FrameFederation:
    """A federation of the clients of a table: see :meth:`headwater.Federation.from_frame`."""
    everyone = read_stream(frame, client, time, label, features)
    end = end_of_learning(everyone, test)
    stream = everyone.known_before(end)
    tell_of_strangers(everyone, stream)
    width = span(round, stream.numeric)
    if historical_before is None:
        first = stream.times[stream.times < end]
        clock, cut = Clock.starting(first, width, stream.numeric), None
    else:
        cut = point(historical_before, "historical_before", stream.numeric)
        clock = Clock(cut, width, stream.numeric)
    return federation(stream, end, clock, stream.historical(end, cut, historical), memory or Keep())


def federation(
    stream: Stream, end: float, clock: Clock, old: Flags, memory: Memory
) -> FrameFederation:
    """The clients of a stream.

    Args:
        stream: All rows, of clients that have some to learn from.
        end: Rows before it are learned from, the others are for testing.
        clock: When the rounds are.
        old: One flag per client: is it historical?
        memory: What the others keep.
    """
    learned = stream.times < end
    train = stream.part(learned)
    recorded = Recorded(clock.rounds(stream.times[learned]), train.offsets)
    begin, width = clock.words
    return FrameFederation(
        train,
        [Once() if o else recorded for o in old],
        [Keep() if o else memory for o in old],
        None if learned.all() else stream.part(~learned),
        tuple(stream.clients.tolist()),
        stream.features,
        stream.classes,
        int(recorded.arrival[~np.repeat(old, train.counts)].max(initial=1)),
        begin,
        width,
    )


def end_of_learning(stream: Stream, test: Any) -> float:
    """The moment from which on rows are for testing: given, or by the fraction of the last rows."""
    if test is None:
        return np.inf
    if isinstance(test, float) and 0 < test < 1:
        ordered = np.sort(stream.times)
        end = float(ordered[int(np.ceil((1 - test) * (len(ordered) - 1)))])
    else:
        end = point(test, "test", stream.numeric)
    if not (stream.times < end).any() or not (stream.times >= end).any():
        raise InputError(
            f"test: {test!r} leaves no rows before it or none from it on; give a moment within the "
            "table's times, or the fraction of the last rows, such as 0.2"
        )
    return end


def _chosen(
    table: Columns, client: str, time: str, label: str, features: Sequence[str] | None
) -> list[str]:
    """The feature columns: all others unless told."""
    for setting, name in (("client", client), ("time", time), ("label", label)):
        table.need([name], setting)
    if len({client, time, label}) < 3:
        raise InputError(
            f"client={client!r}, time={time!r}, label={label!r}: three different columns"
        )
    if not table.rows:
        raise InputError(f"{table.source}: it has no rows")
    if features is None:
        others = [name for name in table.names if name not in (client, time, label)]
        features = [name for name in others if name.strip()]
        if len(features) < len(others):
            _log.warning("%s: a column without a name, as of an index, is left out", table.source)
    if not features:
        raise InputError(
            f"features: {table.source} has no column beside {client}, {time} and {label} to learn "
            "from; name columns of numbers"
        )
    table.need(features, "features")
    twice = [name for name in features if list(features).count(name) > 1]
    if twice:
        raise InputError(f"features: {twice[0]!r} is there twice; name it once")
    if label in features:
        raise InputError(f"features: {label!r} is the label; leave it out")
    return list(features)


def _labels(table: Columns, label: str) -> tuple[NDArray[Any], tuple[Any, ...]]:
    """Labels as numbers, and what the numbers stand for if they were words."""
    kind = table[label].dtype.kind
    if kind == "f":
        return table.numbers(label).astype(np.float32), ()
    if kind in "iu":
        return table[label].astype(np.int64), ()
    classes, numbers = np.unique(table.words(label), return_inverse=True)
    if len(classes) == 1:
        raise one_class(table, label, classes[0])
    return numbers.astype(np.int64), tuple(classes.tolist())


def one_class(table: Columns, label: str, only: object) -> InputError:
    """An error that says that all labels are the same."""
    return InputError(
        f"{table.source}: column {label!r} has one class only, {only!r}; there is nothing to learn"
    )


def _check_order(
    table: Columns, time: str, client: str, order: Numbers, owner: Numbers, times: Times
) -> None:
    """Within a client times must not fall: a fall often means that a time was misread."""
    falls = (np.diff(times[order]) < 0) & (np.diff(owner[order]) == 0)
    if falls.any():
        row = int(order[1:][falls].min())
        who = table[client][row]
        raise InputError(
            f"{table.place(time, row)}: {table[time][row]} stands after a later time of {client} "
            f"{who!r}; sort the table first, as in df.sort_values({time!r})"
        )


def tell_of_strangers(everyone: Stream, known: Stream) -> None:
    """Say who is left out of a stream because all its rows are for testing."""
    names = np.setdiff1d(everyone.clients, known.clients).tolist()
    if names:
        some = ", ".join(map(repr, names[:3])) + (", …" if len(names) > 3 else "")
        _log.warning(
            "clients without a row to learn from, only rows to test, are left out (%d): %s",
            len(names),
            some,
        )


def _offsets(counts: Numbers) -> Numbers:
    return np.concatenate([[0], np.cumsum(counts)])
