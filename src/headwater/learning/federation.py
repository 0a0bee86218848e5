"""Clients and their streams, stacked: all samples in one tensor, a client is a run of sample
numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwater.errors import InputError
from headwater.ledger.arrivals import Arrivals, Once
from headwater.ledger.holdings import Counts, Holdings
from headwater.ledger.memory import Keep, Memory
from headwater.ledger.unrolling import unroll

if TYPE_CHECKING:
    from headwater.learning.frames import FrameFederation


@dataclass(frozen=True)
class Client:
    """One client: its samples in order of arrival, how they arrive, and what it can keep.

    Attributes:
        x, y: features and labels, arrays or tensors with one row a sample.
        arrivals: when samples arrive; all before round 1 unless told otherwise.
        memory: which are kept; all unless told otherwise.
        test: features and labels that this client is tested on.

    >>> client = Client(np.zeros((8, 2)), np.arange(8) % 2)
    >>> len(client), client.arrivals, client.memory
    (8, Once(), Keep())
    """

    x: Any
    y: Any
    arrivals: Arrivals = field(default_factory=Once)
    memory: Memory = field(default_factory=Keep)
    test: tuple[Any, Any] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.arrivals, type) or not isinstance(self.arrivals, Arrivals):
            raise InputError(
                f"Client(arrivals): Once(), Constant(4) or the like; got {self.arrivals!r}"
            )
        if isinstance(self.memory, type) or not isinstance(self.memory, Memory):
            raise InputError(f"Client(memory): Keep(), Fifo(4) or the like; got {self.memory!r}")
        object.__setattr__(self, "x", tensor(self.x, "x"))
        object.__setattr__(self, "y", tensor(self.y, "y"))
        _check_pair(self.x, self.y, "")
        if self.test is not None:
            test = tensor(self.test[0], "test x"), tensor(self.test[1], "test y")
            _check_pair(*test, "test ")
            if test[0].shape[1:] != self.x.shape[1:] or test[1].shape[1:] != self.y.shape[1:]:
                shapes = (tuple(part.shape[1:]) for part in (*test, self.x, self.y))
                raise InputError(
                    "Client(test): samples {} with labels {}; x has {}, y {}".format(*shapes)
                )
            object.__setattr__(self, "test", test)

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class Part:
    """Some samples of each client: rows of two tensors that all clients share.

    Attributes:
        x, y: features and labels.
        offsets: entries offsets[m] … offsets[m + 1] − 1 of ``rows`` belong to client m.
        rows: rows of x and y; None: the entries themselves.
    """

    x: Tensor
    y: Tensor
    offsets: Counts
    rows: NDArray[np.int64] | None = None

    @property
    def counts(self) -> Counts:
        """Samples a client."""
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
        arrivals, memory: one a client.
        test: what the clients are tested on; None: nothing. One client's worth: a common test set.
    """

    train: Part
    arrivals: Sequence[Arrivals]
    memory: Sequence[Memory]
    test: Part | None = None

    @classmethod
    def of(cls, clients: Sequence[Client]) -> Federation:
        """Stack clients. Those without a test set do not count in the accuracy."""
        clients = list(clients)
        if not clients:
            raise InputError("clients: no clients; give at least one")
        for m, client in enumerate(clients):
            if not isinstance(client, Client):
                raise InputError(
                    f"clients: hw.Client objects; number {m} is a {type(client).__name__}"
                )
        test = _stack([c.test for c in clients], "test ") if any(c.test for c in clients) else None
        train = _stack([(c.x, c.y) for c in clients], "")
        return cls(train, [c.arrivals for c in clients], [c.memory for c in clients], test)

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

    def holdings(self, rounds: int, seed: int = 0) -> Holdings:
        """Who holds which sample when."""
        return unroll(self.train.counts, self.arrivals, self.memory, rounds, seed)


def tensor(values: Any, name: str) -> Tensor:
    """Values as a tensor: floats as float32, whole numbers as they are; refuses what cannot be
    learned from."""
    if not isinstance(values, Tensor):
        try:
            array = np.asarray(values)
        except ValueError as error:
            raise InputError(f"Client({name}): rows of equal length ({error})") from error
        if array.dtype.kind not in "fiub":
            raise InputError(
                f"Client({name}): numbers; got {array.dtype} such as {array.ravel()[:1]!r} "
                "(turn names of classes into whole numbers from 0)"
            )
        values = torch.from_numpy(np.ascontiguousarray(array))
    values = values.detach()
    if values.is_floating_point():
        if not torch.isfinite(values).all():
            bad = torch.nonzero(~torch.isfinite(values.reshape(len(values), -1)).all(1))[0].item()
            raise InputError(
                f"Client({name}): every number must be finite; sample {bad} has NaN or infinity"
            )
        return (
            values.float()
            if values.dtype == torch.float16 or name.endswith("y")
            else values.to(torch.float32)
        )
    return values.long() if name.endswith("y") else values


def _check_pair(x: Tensor, y: Tensor, kind: str) -> None:
    if x.ndim == 0 or y.ndim == 0 or len(x) != len(y):
        raise InputError(
            f"Client: {kind}x and {kind}y need one row a sample; got {tuple(x.shape)}, "
            f"{tuple(y.shape)}"
        )
    if not len(x):
        raise InputError(f"Client: {kind}x is empty; every client needs at least one sample")


def _stack(pairs: Sequence[tuple[Tensor, Tensor] | None], kind: str) -> Part:
    """All clients' samples, one client after the other; None: this client has none."""
    there = [(m, pair) for m, pair in enumerate(pairs) if pair is not None]
    first, (first_x, first_y) = there[0]
    for m, (x, y) in there:
        if (
            x.shape[1:] != first_x.shape[1:]
            or y.shape[1:] != first_y.shape[1:]
            or y.dtype != first_y.dtype
        ):
            raise InputError(
                f"client {m}: {kind}samples {tuple(x.shape[1:])} with labels {y.dtype} "
                f"{tuple(y.shape[1:])}; "
                f"client {first} has {tuple(first_x.shape[1:])} with {first_y.dtype} "
                f"{tuple(first_y.shape[1:])}"
            )
    offsets = np.concatenate(
        [[0], np.cumsum([0 if pair is None else len(pair[0]) for pair in pairs])]
    )
    return Part(
        torch.cat([x for _, (x, _) in there]), torch.cat([y for _, (_, y) in there]), offsets
    )
