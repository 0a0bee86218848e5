"""What a run makes of a fleet: how many samples arrive and are held, and how much rounds differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headwater.fleet.fleet import Flags, Fleet
from headwater.fleet.streams import stream_holdings
from headwater.ledger.client_terms import client_noise
from headwater.ledger.holdings import Counts, Holdings
from headwater.randomness import Floats

_AT_ONCE = 1 << 22
"""Samples that are unrolled at once. A longer stream is unrolled in units of several samples: what
counts are the proportions of samples, rate and capacity, so this costs at most the rounding of the
capacity."""


@dataclass(frozen=True)
class Outlook:
    """A fleet after T rounds, a row for each client or for several that are alike.

    Attributes:
        names: of the rows.
        kinds: what rows have in common; an empty word where nothing.
        count: how many clients each row stands for.
        samples: N_m, the samples of each that arrive within the run.
        fresh: whether its memory changes from round to round.
        memory: how many samples it holds on average.
        noise: v_m, how much its samples of a round differ from those of the run.
        rounds: T.
    """

    names: Sequence[str]
    kinds: Sequence[str]
    count: Floats
    samples: Floats
    fresh: Flags
    memory: Floats
    noise: Floats
    rounds: int

    @classmethod
    def of(cls, fleet: Fleet, rounds: int) -> Outlook:
        """Unroll one client of each row.

        >>> from headwater.fleet import Device
        >>> sensor = Device("sensor", 800, True, 8, 16, count=9)
        >>> fleet = Fleet.of([Device("server", 500, False), sensor])
        >>> outlook = Outlook.of(fleet, rounds=100)
        >>> outlook.memory.round(2), outlook.noise.round(4), outlook.total, outlook.fresh_clients
        (array([500.  ,  15.92]), array([0.    , 0.0619]), 7700.0, 9.0)
        """
        columns = np.stack([fleet.samples, fleet.samples, np.zeros(len(fleet)), fleet.fresh])
        streams = np.flatnonzero(fleet.fresh)
        if len(streams):
            columns[:, streams] = _streams(fleet, streams, rounds)
        samples, memory, noise, fresh = columns
        return cls(
            names=fleet.names,
            kinds=fleet.kinds,
            count=fleet.count.astype(np.float64),
            samples=samples,
            fresh=fresh > 0,
            memory=memory,
            noise=noise,
            rounds=rounds,
        )

    @classmethod
    def of_holdings(cls, holdings: Holdings) -> Outlook:
        """Clients whose arrivals and memory rules are known, whatever they are, named by number."""
        there = np.flatnonzero(holdings.collected > 0)
        samples, memory, noise, fresh = _columns(holdings)[:, there]
        return cls(
            names=[str(m) for m in there],
            kinds=[""] * len(there),
            count=np.ones(len(there)),
            samples=samples,
            fresh=fresh > 0,
            memory=memory,
            noise=noise,
            rounds=holdings.rounds,
        )

    @property
    def row_samples(self) -> Floats:
        """Samples of all clients of a row together."""
        return self.count * self.samples

    @property
    def total(self) -> float:
        """N, the samples of all clients."""
        return float(self.row_samples.sum())

    @property
    def clients(self) -> float:
        """M, the number of clients."""
        return float(self.count.sum())

    @property
    def fresh_clients(self) -> float:
        """M − M_hist, the number of clients whose memory changes."""
        return float(self.count[self.fresh].sum())


def _columns(holdings: Holdings) -> Floats:
    """Samples, mean memory, noise and freshness of each client, as rows of a table."""
    memory = holdings.per_client(holdings.rounds_held) / holdings.rounds
    return np.stack([holdings.collected, memory, client_noise(holdings), ~holdings.historical])


def _streams(fleet: Fleet, rows: Counts, rounds: int) -> Floats:
    """The columns of these rows of a fleet, which are streams."""
    # What comes after the last round needs no unrolling; one more sample tells whether the stream
    # goes on, which decides when the oldest of the memory leaves.
    arriving = np.minimum(fleet.samples[rows], np.ceil(fleet.rate[rows] * rounds + 1))
    # Rows that differ in name or count only are unrolled once.
    alike, member = _distinct(arriving, fleet.rate[rows], fleet.capacity[rows].astype(np.float64))
    found = [_unrolled(alike[:, piece], rounds) for piece in _pieces(alike[0])]
    return np.concatenate(found, axis=1)[:, member]


def _distinct(*columns: Floats) -> tuple[Floats, Counts]:
    """The different combinations of values, and which of them each row has.

    One column after the other: sorting numbers is ten times as fast as sorting whole rows.
    """
    member = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, code = np.unique(column, return_inverse=True)
        member = np.unique(member * len(values) + code, return_inverse=True)[1]
    first = np.unique(member, return_index=True)[1]
    return np.stack([column[first] for column in columns]), member


def _unrolled(streams: Floats, rounds: int) -> Floats:
    """The columns of streams with these samples, rates and capacities."""
    unit = np.ceil(streams[0] / _AT_ONCE)
    samples, rate, capacity = streams / unit
    holdings = stream_holdings(
        np.ceil(samples).astype(np.int64), rate, np.ceil(capacity).astype(np.int64), rounds
    )
    # In units of k samples there are k times as many; an average over k has a k-th of the noise.
    return _columns(holdings) * np.stack([unit, unit, 1 / unit, np.ones_like(unit)])


def _pieces(samples: Floats) -> Iterator[slice]:
    """Streams in pieces of bounded size, so that memory does not grow with the fleet."""
    ends = np.cumsum(np.minimum(samples, _AT_ONCE))
    start = 0
    while start < len(samples):
        done = ends[start - 1] if start else 0.0
        end = max(start + 1, int(np.searchsorted(ends, done + _AT_ONCE, side="right")))
        yield slice(start, end)
        start = end
