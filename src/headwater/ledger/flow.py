"""Rounds of streams that are too long to be written down.

A :class:`~headwater.ledger.ledger.Ledger` keeps two numbers per sample, so that it can answer any
question about a run before it begins. A learner asks only one: who holds what now? That needs no
more than the slots of the memories. Here samples are numbered as they arrive, some rounds at a
time, and put into their slots; nothing is kept of a sample that is gone. Memory grows with the
clients and what they keep, not with the length of the streams.

What has to be known of the whole run beforehand can be had this way as far as a look at the whole
stream, some rounds at a time, gives it (:mod:`headwater.ledger.lookahead`): the weights of the
strategies that ask for a sample's rounds in memory and for its client's totals. With
:class:`~headwater.ledger.strategies.ByMemory` nothing has to be known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from headwater.errors import InputError
from headwater.ledger.arrivals import Arrivals
from headwater.ledger.arriving import Arriving, Streams
from headwater.ledger.holdings import Counts
from headwater.ledger.lookahead import Lookahead, check_strategy
from headwater.ledger.memory import Memory
from headwater.ledger.rounds import Round
from headwater.ledger.strategies import ByMemory, Strategy
from headwater.ledger.unrolling import check_settings, kinds_of_clients
from headwater.randomness import Floats

_AT_ONCE = 1 << 16
"""Samples whose arrival is worked out together."""


@dataclass(frozen=True)
class Flow:
    """The rounds of a run, one after the other.

    Attributes:
        counts: how many samples each client will see if the run is long enough.
        arrivals: one process for all clients, or one for each. A sample's round must follow from
            its own number, as with ``Once``, ``Constant`` and ``Trace``; for ``Poisson`` it follows
            from all samples before it.
        memory: one rule for all clients, or one for each.
        last: T, the number of rounds.
        seed: of random memory rules.
        strategy: how much each sample counts: ``ByMemory()``, ``Uniform()``, ``Share(…)``,
            ``Historical()``, ``Fresh()`` or ``Importance(…)``.

    Example:
        >>> from headwater import Constant, Fifo
        >>> flow = Flow([10**12], Constant(1), Fifo(2), last=4)
        >>> [round.samples.tolist() for round in flow.rounds()]
        [[0], [0, 1], [1, 2], [2, 3]]
        >>> flow.round_shares * 7
        array([1., 2., 2., 2.])
    """

    counts: Sequence[int] | Counts
    arrivals: Arrivals | Sequence[Arrivals]
    memory: Memory | Sequence[Memory]
    last: int
    seed: int = 0
    strategy: Strategy = field(default_factory=ByMemory)

    def __post_init__(self) -> None:
        check_strategy(self.strategy)

    def rounds(self, first: int = 1) -> Iterator[Round]:
        """The rounds from ``first`` to the last; equal ones in a row share their arrays."""
        held = np.full(self._places[-1], -1)
        weight = np.zeros(self._places[-1])
        current: Round | None = None
        for stretch, (begin, end, arriving) in enumerate(self._stretches()):
            weights = self._weights(arriving, stretch)[0]
            for number, now in arriving.by_round(begin, end):
                place = arriving.place[now]
                changed = bool((weight[place] > 0).any() or (weights[now] > 0).any())
                # Of several samples for one place, the last stays there.
                held[place] = arriving.sample[now]
                weight[place] = weights[now]
                if changed or current is None:
                    current = self._round(number, held, weight)
                if number >= first:
                    yield replace(current, number=number)

    def _round(self, number: int, held: Counts, weight: Floats) -> Round:
        """Of what lies in the places, that which counts."""
        there = np.flatnonzero(weight > 0)
        if not len(there):
            raise InputError(f"round {number}: nobody holds a sample yet")
        there = there[np.argsort(held[there])]
        return Round.of(number, held[there], weight[there], self._offsets)

    @cached_property
    def round_shares(self) -> Floats:
        """q(t): how much counts in each round, over the sum of that."""
        if self._ahead is None:
            return self._shares_by_memory()
        change = np.zeros(self.last + 1)
        for stretch, (_, _, arriving) in enumerate(self._stretches()):
            weights, leave = self._weights(arriving, stretch)
            np.add.at(change, arriving.round - 1, weights)
            np.subtract.at(change, leave - 1, weights)
        weight = np.cumsum(change[:-1])
        return weight / weight.sum()

    def _shares_by_memory(self) -> Floats:
        """How many samples are held in each round, over the sum of that."""
        used = np.zeros(self._places[-1], bool)
        filled = np.zeros(self.last)
        for begin, end, arriving in self._stretches():
            for number, now in arriving.by_round(begin, end):
                new = np.unique(arriving.place[now])
                filled[number - 1] = len(new) - used[new].sum()
                used[new] = True
            if used.all():  # a place that was taken is never empty again
                break
        held = np.cumsum(filled)
        return held / held.sum()

    @cached_property
    def _ahead(self) -> Lookahead | None:
        """What the strategy has to know of the whole stream; None: nothing."""
        if isinstance(self.strategy, ByMemory):
            return None
        owners = np.repeat(np.arange(len(self._places) - 1), np.diff(self._places))
        stretches = (arriving for _, _, arriving in self._stretches())
        return Lookahead.over(stretches, owners, len(self._places) - 1, self.last)

    def _weights(self, arriving: Arriving, stretch: int) -> tuple[Floats, Counts]:
        """λ of what arrives in a stretch, and when it will be gone, where that has to be known."""
        if self._ahead is None:
            return np.ones(len(arriving.place)), arriving.round
        return self._ahead.weights(self.strategy, arriving, stretch)

    @cached_property
    def _offsets(self) -> Counts:
        return np.concatenate([[0], np.cumsum(check_settings(self.counts, self.last, self.seed))])

    @cached_property
    def _kinds(self) -> list[tuple[Arrivals, Memory, Counts]]:
        return kinds_of_clients(self.arrivals, self.memory, np.diff(self._offsets))

    @cached_property
    def _places(self) -> Counts:
        """The memories' places lie one client after the other: where each client's begin."""
        sizes = np.diff(self._offsets)
        for _, rule, members in self._kinds:
            if rule.capacity is not None:
                sizes[members] = rule.capacity
        return np.concatenate([[0], np.cumsum(sizes)])

    @cached_property
    def _streams(self) -> list[Streams]:
        sizes = np.diff(self._offsets)
        return [
            Streams(
                process, rule, who, sizes[who], self._offsets[who], self._places[who], self.seed
            )
            for process, rule, who in self._kinds
        ]

    def _stretches(self) -> Iterator[tuple[int, int, Arriving]]:
        """Some rounds at a time, the first and the one after the last: what is put where."""
        each = sum(streams.a_round for streams in self._streams)
        together = max(1, _AT_ONCE // max(1, each))
        edges = [*range(1, self.last + 1, together), self.last + 1]
        stretches = zip(*(streams.arriving(edges) for streams in self._streams), strict=True)
        for (first, end), parts in zip(pairwise(edges), stretches, strict=True):
            yield first, end, Arriving.together(parts)
