"""What a run makes of a fleet: how many samples arrive, how many are held, and how much rounds
differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headwater.fleet.fleet import Flags, Fleet
from headwater.ledger.arrivals import Constant
from headwater.ledger.client_terms import client_noise
from headwater.ledger.holdings import Counts, Holdings
from headwater.ledger.memory import Fifo
from headwater.ledger.unrolling import unroll
from headwater.randomness import Floats

_SAMPLES = 1 << 22
"""Samples that are unrolled at once. A longer stream is unrolled in units of several samples: what
counts are the proportions of samples, rate and capacity, so this costs at most the rounding of the
capacity."""


@dataclass(frozen=True)
class Outlook:
    """A fleet after T rounds, a row for each kind of client.

    Attributes:
        names: of the rows.
        count: how many clients each row stands for.
        samples: N_m, the samples of each that arrive within the run.
        fresh: does its memory change from round to round?
        memory: how many samples it holds on average.
        noise: v_m, how much its samples of a round differ from those of the run
            (:func:`client_noise`).
        rounds: T.
    """

    names: Sequence[str]
    count: Floats
    samples: Floats
    fresh: Flags
    memory: Floats
    noise: Floats
    rounds: int

    @classmethod
    def of(cls, fleet: Fleet, rounds: int) -> Outlook:
        """Unroll one client of each kind.

        >>> from headwater.fleet.fleet import Kind
        >>> sensor = Kind("sensor", 800, True, 8, 16, count=9)
        >>> fleet = Fleet.of([Kind("server", 500, False), sensor])
        >>> outlook = Outlook.of(fleet, rounds=100)
        >>> outlook.memory.round(2), outlook.noise.round(4), outlook.total, outlook.fresh_clients
        (array([500.  ,  15.92]), array([0.    , 0.0619]), 7700.0, 9.0)
        """
        streams = np.flatnonzero(fleet.fresh)
        arriving = np.minimum(
            fleet.samples[streams], np.ceil(fleet.rate[streams] * rounds + 1)
        ).astype(np.int64)
        kinds, kind = np.unique(
            np.stack([arriving, fleet.rate[streams], fleet.capacity[streams]]),
            axis=1,
            return_inverse=True,
        )
        columns = np.stack([fleet.samples, fleet.samples, np.zeros(len(fleet)), fleet.fresh])
        if len(streams):
            found = [_streams(kinds[:, piece], rounds) for piece in _pieces(kinds[0])]
            columns[:, streams] = np.concatenate(found, axis=1)[:, kind.ravel()]
        samples, memory, noise, fresh = columns
        return cls(
            fleet.names, fleet.count.astype(np.float64), samples, fresh > 0, memory, noise, rounds
        )

    @classmethod
    def of_holdings(cls, holdings: Holdings) -> Outlook:
        """A federation whose arrivals and memory rules are known, whatever they are; clients named
        by number."""
        there = np.flatnonzero(holdings.collected > 0)
        samples, memory, noise, fresh = _columns(holdings)[:, there]
        names = [str(m) for m in there]
        return cls(names, np.ones(len(there)), samples, fresh > 0, memory, noise, holdings.rounds)

    @property
    def group_samples(self) -> Floats:
        """Samples of all clients of a row together."""
        return self.count * self.samples

    @property
    def total(self) -> float:
        """N."""
        return float(self.group_samples.sum())

    @property
    def fresh_clients(self) -> float:
        """M − M_hist."""
        return float(self.count[self.fresh].sum())


def _columns(holdings: Holdings) -> Floats:
    """Samples, mean memory, noise and freshness of each client, as rows of a table."""
    memory = holdings.per_client(holdings.rounds_held) / holdings.rounds
    return np.stack([holdings.collected, memory, client_noise(holdings), ~holdings.historical])


def _streams(kinds: Floats, rounds: int) -> Floats:
    """The same for streams of given numbers of samples, rates and capacities."""
    unit = np.ceil(kinds[0] / _SAMPLES)
    samples, rates, capacities = kinds / unit
    arrivals = [Constant(rate) for rate in rates.tolist()]
    memory = [Fifo(capacity) for capacity in np.ceil(capacities).astype(np.int64).tolist()]
    found = _columns(unroll(np.ceil(samples).astype(np.int64), arrivals, memory, rounds))
    return found * np.stack([unit, unit, 1 / unit, np.ones_like(unit)])


def _pieces(samples: Floats | Counts) -> Iterator[slice]:
    """Kinds in pieces of bounded size, so that memory does not grow with the fleet."""
    start = 0
    while start < len(samples):
        end = start + max(
            1, int(np.searchsorted(np.cumsum(samples[start:]), _SAMPLES, side="right"))
        )
        yield slice(start, end)
        start = end
