"""What a run makes of a fleet: what arrives, is held and is drawn, and how much rounds differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from headwater.fleet.fleet import Flags, Fleet
from headwater.fleet.streams import stream_holdings
from headwater.fleet.terms import Terms
from headwater.ledger.drawing import Drawing
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
        terms: what each client of a row brings to the run.
        rounds: T.
        drawing: how much of what is held a round draws.
    """

    names: Sequence[str]
    kinds: Sequence[str]
    count: Floats
    terms: Terms
    rounds: int
    drawing: Drawing = field(default_factory=Drawing)

    @classmethod
    def of(cls, fleet: Fleet, rounds: int, drawing: Drawing | None = None) -> Outlook:
        """Unroll one client of each row.

        Args:
            fleet: the clients.
            rounds: T.
            drawing: local steps and batch size; None: a round uses all that is held.

        >>> from headwater.fleet import Device
        >>> sensor = Device("sensor", 800, True, 8, 16, count=9)
        >>> fleet = Fleet.of([Device("server", 500, False), sensor])
        >>> outlook = Outlook.of(fleet, rounds=100)
        >>> outlook.terms.noise.round(4), outlook.total, outlook.fresh_clients
        (array([0.    , 0.0619]), 7700.0, 9.0)
        >>> small = Outlook.of(fleet, rounds=100, drawing=Drawing(batch_size=4))
        >>> small.terms.noise.round(4), small.terms.drawable.round(1)
        (array([0.248 , 0.2506]), array([223.2, 318.7]))
        """
        drawing = drawing or Drawing()
        old, new = np.flatnonzero(~fleet.fresh), np.flatnonzero(fleet.fresh)
        history = Terms.of_history(fleet.samples[old], rounds, drawing)
        both = Terms.together([history, *_streams(fleet, new, rounds, drawing)])
        # Historical rows come first there; this is where each row of the fleet is.
        place = np.argsort(np.concatenate([old, new]))
        return cls(
            names=fleet.names,
            kinds=fleet.kinds,
            count=fleet.count.astype(np.float64),
            terms=both.taken(place),
            rounds=rounds,
            drawing=drawing,
        )

    @classmethod
    def of_holdings(cls, holdings: Holdings) -> Outlook:
        """Clients whose arrivals and memory rules are known, whatever they are, named by number."""
        there = np.flatnonzero(holdings.collected > 0)
        return cls(
            names=[str(m) for m in there],
            kinds=[""] * len(there),
            count=np.ones(len(there)),
            terms=Terms.of_holdings(holdings).taken(there),
            rounds=holdings.rounds,
            drawing=holdings.drawing,
        )

    @property
    def fresh(self) -> Flags:
        """Whether the memory of a row's clients changes from round to round."""
        return self.terms.fresh

    @property
    def row_samples(self) -> Floats:
        """Samples of all clients of a row together."""
        return self.count * self.terms.samples

    @property
    def row_drawable(self) -> Floats:
        """Samples of all clients of a row together, as drawn."""
        return self.count * self.terms.drawable

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


def _streams(fleet: Fleet, rows: Counts, rounds: int, drawing: Drawing) -> Iterator[Terms]:
    """The terms of these rows of a fleet, which are streams; nothing if there are none."""
    if not len(rows):
        return
    # What comes after the last round needs no unrolling; one more sample tells whether the stream
    # goes on, which decides when the oldest of the memory leaves.
    arriving = np.minimum(fleet.samples[rows], np.ceil(fleet.rate[rows] * rounds + 1))
    # Rows that differ in name or count only are unrolled once.
    alike, member = _distinct(arriving, fleet.rate[rows], fleet.capacity[rows].astype(np.float64))
    found = [_unrolled(alike[:, piece], rounds, drawing) for piece in _pieces(alike[0])]
    yield Terms.together(found).taken(member)


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


def _unrolled(streams: Floats, rounds: int, drawing: Drawing) -> Terms:
    """The terms of streams with these samples, rates and capacities."""
    unit = np.ceil(streams[0] / _AT_ONCE)
    samples, rate, capacity = streams / unit
    holdings = stream_holdings(
        np.ceil(samples).astype(np.int64), rate, np.ceil(capacity).astype(np.int64), rounds
    )
    if (unit == 1).all():
        return Terms.of_holdings(replace(holdings, drawing=drawing))
    return _in_units(Terms.of_holdings(holdings), unit, rounds, drawing)


def _in_units(terms: Terms, unit: Floats, rounds: int, drawing: Drawing) -> Terms:
    """The terms of streams of which one unit stands for several samples.

    There are ``unit`` times as many, and an average over them has a ``unit``-th of the noise. So
    long a stream has filled its memory in the first rounds, so that batches are drawn from its mean
    memory nearly always.
    """
    samples, memory = terms.samples * unit, terms.memory * unit
    squares = terms.noise / unit + 1 / samples  # Σ_i s_i² · T of the client's shares
    redraws = drawing.redraws(memory)
    return replace(
        terms,
        samples=samples,
        memory=memory,
        noise=np.maximum(squares * (1 + redraws) - 1 / samples, 0.0),
        drawable=samples / (1 + samples * squares * redraws / rounds),
    )


def _pieces(samples: Floats) -> Iterator[slice]:
    """Streams in pieces of bounded size, so that memory does not grow with the fleet."""
    ends = np.cumsum(np.minimum(samples, _AT_ONCE))
    start = 0
    while start < len(samples):
        done = ends[start - 1] if start else 0.0
        end = max(start + 1, int(np.searchsorted(ends, done + _AT_ONCE, side="right")))
        yield slice(start, end)
        start = end
