"""Clients and their streams: all samples lie in one tensor, a client is a run of sample numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwater.errors import InputError
from headwater.learning import view
from headwater.learning.arrays import Values, features, joined, labels
from headwater.learning.stored import Rows
from headwater.ledger.arrivals import Arrivals, Once
from headwater.ledger.holdings import Counts, Holdings
from headwater.ledger.memory import Keep, Memory
from headwater.ledger.unrolling import unroll

if TYPE_CHECKING:
    from headwater.learning.frames import FrameFederation

Pair = tuple[Tensor, Tensor]
"""Features and labels."""


@dataclass(frozen=True)
class Client:
    """One client: its samples in order of arrival, how they arrive, and what it can keep.

    Attributes:
        x: features, an array or a tensor with one row per sample. Floats keep their precision until
            they meet a model, and are then taken in the model's.
        y: labels, one row per sample.
        arrivals: when samples arrive; all before round 1 unless told otherwise.
        memory: which are kept; all unless told otherwise.
        test: features and labels that this client is tested on.

    Example:
        >>> client = Client(np.zeros((8, 2)), np.arange(8) % 2)
        >>> len(client), client.arrivals, client.memory
        (8, Once(), Keep())
    """

    x: Values
    y: Values
    arrivals: Arrivals = field(default_factory=Once)
    memory: Memory = field(default_factory=Keep)
    test: tuple[Values, Values] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.arrivals, type) or not isinstance(self.arrivals, Arrivals):
            raise InputError(
                f"Client(arrivals): Once(), Constant(4) or the like; got {self.arrivals!r}"
            )
        if isinstance(self.memory, type) or not isinstance(self.memory, Memory):
            raise InputError(f"Client(memory): Keep(), Fifo(4) or the like; got {self.memory!r}")
        x, y = pair(self.x, self.y)
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", y)
        if self.test is not None:
            test = pair_for_tests(self.test, "Client(test)")
            _check_alike(test, (x, y), "Client(test)", "x and y")
            object.__setattr__(self, "test", test)

    def __len__(self) -> int:
        return len(self.x)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return view.client_text(self)

    def _repr_html_(self) -> str:
        return view.client_html(self)

    @property
    def tensors(self) -> Pair:
        """Features and labels, as the tensors that they have become."""
        assert isinstance(self.x, Tensor)
        assert isinstance(self.y, Tensor)
        return self.x, self.y


@dataclass(frozen=True)
class Part:
    """Some samples of each client: rows of two tensors that all clients share.

    Attributes:
        x: features, in a tensor or as they lie.
        y: labels.
        offsets: entries offsets[m] … offsets[m + 1] − 1 of ``rows`` belong to client m.
        rows: rows of x and y; None: the entries themselves.
    """

    x: Rows
    y: Tensor
    offsets: Counts
    rows: NDArray[np.int64] | None = None

    @property
    def counts(self) -> Counts:
        """How many samples each client has."""
        return np.diff(self.offsets)

    @cached_property
    def row_tensor(self) -> Tensor | None:
        """The rows as a tensor."""
        return None if self.rows is None else torch.from_numpy(self.rows)


@dataclass(frozen=True)
class Federation:
    """All clients of a run.

    Attributes:
        train: what the streams bring, within a client in order of arrival.
        arrivals: one process per client.
        memory: one rule per client.
        test: what the model is tested on; None: nothing. One test set per client, or a single one
            that is common to all.
    """

    train: Part
    arrivals: Sequence[Arrivals]
    memory: Sequence[Memory]
    test: Part | None = None

    @classmethod
    def of(cls, clients: Sequence[Client], test: tuple[Values, Values] | None = None) -> Federation:
        """Stack clients.

        Args:
            clients: those that have a test set are tested on it; the others do not count there.
            test: one test set for all, stored once, instead of one per client.
        """
        clients = _check_clients(clients)
        own = [None if c.test is None else pair(*c.test) for c in clients]
        tests = _stack(own, "test ") if any(t is not None for t in own) else None
        train = _stack([c.tensors for c in clients], "")
        federation = cls(train, [c.arrivals for c in clients], [c.memory for c in clients], tests)
        return federation if test is None else federation.tested_on(test)

    def tested_on(self, test: tuple[Values, Values]) -> Federation:
        """The same clients with one common test set."""
        if self.test is not None:
            raise InputError(
                "test: a common test set, but clients have test sets of their own; leave one out"
            )
        x, y = pair_for_tests(test, "test")
        _check_alike((x, y), (self.train.x, self.train.y), "test", "the clients' x and y")
        common = Part(x, y, np.array([0, len(x)]))
        return replace(self, test=common)

    @staticmethod
    def from_frame(
        frame: Any,
        *,
        client: str,
        time: str,
        label: str,
        features: Sequence[str] | None = None,
        round: Any = "1h",
        memory: Memory | None = None,
        historical_before: Any = None,
        historical: Collection[Any] = (),
        test: Any = None,
    ) -> FrameFederation:
        """The federation of a table with one row per sample: wall-clock time becomes rounds.

        Args:
            frame: A pandas, Polars or PyArrow table, a mapping of names to arrays, or the path of a
                CSV or Parquet file (``pip install "headwater[frames]"``).
            client: The column that names each row's client.
            time: The column of times; within a client they must not fall. Times with a zone are
                brought to UTC. Times may also be numbers, and so must then be all other settings of
                time.
            label: The column of labels. Words become classes, whole numbers stay as they are, and
                fractions are for regression.
            features: The columns of features; all others unless told.
            round: How long a round lasts: ``"15min"``, ``"1h"``, ``"7d"``. Gaps become rounds in
                which nothing arrives.
            memory: What a client keeps; all unless told.
            historical_before: When round 1 begins. A client all of whose rows came before is
                historical: it keeps them all. Of the others, what came before is there in round 1,
                as far as their memory holds it. If not given, round 1 begins with the first row.
            historical: Names of clients that are historical whenever their rows came.
            test: Rows from this moment on are for testing, by client; or the last fraction of all
                rows, such as 0.2.

        Returns:
            A federation that also has ``clients``, ``features``, ``classes``, ``rounds``, ``begin``
            and ``width``.

        Example:
            >>> table = {"pump": ["a", "a", "b"], "at": ["2026-01-01 00:10", "2026-01-01 02:30",
            ...          "2025-06-30"], "x": [0.1, 0.2, 0.3], "state": ["off", "on", "on"]}
            >>> pumps = Federation.from_frame(table, client="pump", time="at", label="state",
            ...                               historical_before="2026-01-01", round="1h")
            >>> pumps.clients, pumps.classes, pumps.rounds
            (('a', 'b'), ('off', 'on'), 3)
            >>> pumps.holdings(pumps.rounds).historical
            array([False,  True])
        """
        from headwater.learning.frames import from_frame

        return from_frame(
            frame, client, time, label, features, round, memory, historical_before, historical, test
        )

    def __len__(self) -> int:
        return len(self.train.offsets) - 1

    def __repr__(self) -> str:
        return view.federation_text(self)

    def _repr_html_(self) -> str:
        return view.federation_html(self)

    def holdings(self, rounds: int, seed: int = 0) -> Holdings:
        """Who holds which sample when."""
        return unroll(self.train.counts, self.arrivals, self.memory, rounds, seed)


def pair(x: Values, y: Values, kind: str = "") -> Pair:
    """Features and labels as tensors that have one row per sample, and at least one."""
    found = features(x, f"{kind}x"), labels(y, f"{kind}y")
    shapes = [tuple(part.shape) for part in found]
    if not all(shapes) or shapes[0][0] != shapes[1][0]:
        raise InputError(
            f"Client: {kind}x and {kind}y need one row per sample; got {shapes[0]}, {shapes[1]}"
        )
    if not shapes[0][0]:
        raise InputError(f"Client: {kind}x is empty; every client needs at least one sample")
    return found


def pair_for_tests(test: object, setting: str) -> Pair:
    """A test set, which is a pair of features and labels."""
    if not isinstance(test, tuple | list) or len(test) != 2:
        raise InputError(
            f"{setting}: a pair of features and labels, as in (x, y); got a {type(test).__name__}"
        )
    return pair(test[0], test[1], "test ")


def _check_alike(test: Pair, train: tuple[Rows, Tensor], setting: str, whose: str) -> None:
    """Tests must look like what is learned from: same shapes, same kinds of numbers."""
    for name, new, old in zip(("features", "labels"), test, train, strict=True):
        # Floats of another precision are brought to the model's, so they are no difference.
        other_kind = new.is_floating_point() != old.is_floating_point()
        if new.shape[1:] != old.shape[1:] or other_kind:
            raise InputError(
                f"{setting}: {name} {tuple(new.shape[1:])} of {new.dtype}; {whose} have "
                f"{tuple(old.shape[1:])} of {old.dtype}"
            )


def _check_clients(clients: Sequence[Client]) -> list[Client]:
    if isinstance(clients, Client):
        raise InputError("clients: a list of clients; got a single Client, so write [client]")
    try:
        clients = list(clients)
    except TypeError as error:
        raise InputError(f"clients: a list of hw.Client objects ({error})") from error
    if not clients:
        raise InputError("clients: no clients; give at least one")
    for m, client in enumerate(clients):
        if not isinstance(client, Client):
            raise InputError(f"clients: hw.Client objects; number {m} is a {type(client).__name__}")
    return clients


def _stack(pairs: Sequence[Pair | None], kind: str) -> Part:
    """All clients' samples, one client after the other; None: this client has none."""
    there = [(m, found) for m, found in enumerate(pairs) if found is not None]
    first, like = there[0]
    for m, found in there:
        if _look(found) != _look(like):
            raise InputError(
                f"client {m}: {kind}{_words(found)}; client {first} has {_words(like)}"
            )
    # One tensor for all: a client is a run of sample numbers, and batches of many clients are one
    # indexing operation.
    counts = [0 if found is None else len(found[0]) for found in pairs]
    x, y = (joined([found[k] for _, found in there]) for k in (0, 1))
    return Part(x, y, np.concatenate([[0], np.cumsum(counts)]))


def _look(found: Pair) -> tuple[object, ...]:
    """What all clients' samples have in common; precisions may differ."""
    return tuple((part.shape[1:], part.is_floating_point()) for part in found)


def _words(found: Pair) -> str:
    x, y = found
    return f"samples {tuple(x.shape[1:])} with labels {y.dtype} {tuple(y.shape[1:])}"
