"""Who holds what when, for many streams that each have a rate and a capacity of their own.

:func:`headwater.unroll` takes clients with equal rules together. A fleet file can have as many
rules as rows, but they are all of one family: a constant rate, and the newest samples are kept. In
that family both rounds of a sample have a formula, so that no rule is looked at twice:

    enters in round 1 + ⌊i/rate⌋,    leaves when sample i + capacity enters.
"""

from __future__ import annotations

import numpy as np

from headwater.ledger.arrivals import FOREVER
from headwater.ledger.holdings import Counts, Holdings
from headwater.ledger.samples import Samples
from headwater.randomness import Floats

_TOLERANCE = 1e-9  # as in Constant: 3 / 0.3 must not fall to the round before


def stream_holdings(samples: Counts, rate: Floats, capacity: Counts, rounds: int) -> Holdings:
    """Unroll clients whose arrivals are ``Constant(rate)`` and whose memory is ``Fifo(capacity)``.

    Args:
        samples: how many samples each client will see if the run is long enough.
        rate: samples per round of each client.
        capacity: the number of newest samples that each client keeps; a round's must fit.
        rounds: T.

    >>> found = stream_holdings(np.array([4]), np.array([1.0]), np.array([2]), rounds=3)
    >>> found.enter, found.leave
    (array([1, 2, 3, 4], dtype=int32), array([3, 4, 4, 4], dtype=int32))
    """
    stream = Samples.of(np.arange(len(samples)), samples, seed=0)
    offsets = np.concatenate([[0], np.cumsum(samples)])
    pace = rate[stream.client]
    following = stream.position + capacity[stream.client]
    enter = _arrival(stream.position, pace, rounds)
    # Whoever has no follower in the same slot stays to the end.
    replaced = following < samples[stream.client]
    leave = np.where(replaced, _arrival(following, pace, rounds), rounds + 1)
    return Holdings(offsets, enter.astype(np.int32), leave.astype(np.int32), rounds)


def _arrival(position: Counts, rate: Floats, rounds: int) -> Counts:
    """The round in which each sample arrives; the one after the last for those that never do."""
    quotient = np.minimum(position / rate + _TOLERANCE, FOREVER - 1)
    return np.minimum(1 + quotient.astype(np.int64), rounds + 1)
