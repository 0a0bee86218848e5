"""What arrives in some rounds, and where it is put: streams unrolled a stretch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from headwater.errors import InputError
from headwater.ledger.arrivals import Arrivals, Departures
from headwater.ledger.checks import whole_numbers
from headwater.ledger.holdings import Counts
from headwater.ledger.memory import REJECTED, Memory
from headwater.ledger.samples import Samples


@dataclass(frozen=True)
class Arriving:
    """Samples on their way into memories.

    Attributes:
        round: in which each arrives.
        place: of all memories' places, the one that it is put into.
        sample: its number.
    """

    round: Counts
    place: Counts
    sample: Counts

    @classmethod
    def together(cls, parts: Sequence[Arriving]) -> Arriving:
        """In order of time; within a round and a client in order of arrival."""
        rounds, places, samples = (
            np.concatenate(values)
            for values in zip(*((p.round, p.place, p.sample) for p in parts), strict=True)
        )
        order = np.argsort(rounds, kind="stable")
        return cls(rounds[order], places[order], samples[order])

    def by_round(self, first: int, end: int) -> Iterator[tuple[int, slice]]:
        """Which of them arrive in each round from ``first`` to ``end`` − 1."""
        edges = np.searchsorted(self.round, np.arange(first, end + 1)).tolist()
        for number, (start, stop) in enumerate(pairwise(edges), first):
            yield number, slice(start, stop)


@dataclass(frozen=True)
class Streams:
    """Clients with the same arrivals and the same memory rule.

    Attributes:
        process: when samples arrive.
        rule: which are kept.
        clients: their numbers.
        counts: how many samples each of them will see.
        numbers: the number of each one's first sample.
        places: the first of each one's places.
        seed: of the run.
    """

    process: Arrivals
    rule: Memory
    clients: Counts
    counts: Counts
    numbers: Counts
    places: Counts
    seed: int

    def __post_init__(self) -> None:
        if isinstance(self.process, Departures) or not self._most:
            raise InputError(
                f"{self.process!r}: a stream that is unrolled as it comes must say how many "
                "samples arrive in a round at most, and stay to the end; Constant(4) or Trace(…) "
                "do, and a Ledger takes any process"
            )

    @property
    def _most(self) -> int:
        """Samples of a client in one round, at most."""
        return self.process.largest_batch(int(self.counts.max()))

    @property
    def a_round(self) -> int:
        """Samples of all clients in one round, at most; 0 if they come but once."""
        return 0 if self._most >= self.counts.max() else self._most * len(self.clients)

    def arriving(self, edges: Sequence[int]) -> Iterator[Arriving]:
        """What arrives from each edge to the next."""
        done = np.zeros(len(self.clients), np.int64)
        for first, end in pairwise(edges):
            most = self._most * (end - first)
            samples, rounds = self._following(done, most + 1)
            due = rounds < end
            taken = np.bincount(np.repeat(np.arange(len(done)), self._left(done, most + 1))[due])
            if taken.max(initial=0) > most:
                raise InputError(
                    f"{self.process!r}: more than its largest_batch, {self._most}, arrive in a "
                    f"round between {first} and {end - 1}"
                )
            yield self._placed(samples, rounds, due)
            done[: len(taken)] += taken

    def _left(self, done: Counts, most: int) -> Counts:
        return np.minimum(self.counts - done, most)

    def _following(self, done: Counts, most: int) -> tuple[Samples, Counts]:
        """The next samples of each client, and when they arrive."""
        sizes = self._left(done, most)
        samples = Samples.of(np.arange(len(done)), sizes, self.seed)
        position = samples.position + done[samples.client]
        samples = Samples(self.clients[samples.client], position, self.seed)
        if not len(position):
            return samples, position
        who = f"{self.process!r}.rounds"
        return samples, whole_numbers(self.process.rounds(samples), len(position), who)

    def _placed(self, samples: Samples, rounds: Counts, due: np.ndarray) -> Arriving:
        """Where the memory rule puts those that are due; what it does not keep is left out."""
        some = Samples(samples.client[due], samples.position[due], self.seed)
        if not len(some.position):
            return Arriving(some.position, some.position, some.position)
        slots = whole_numbers(self.rule.slots(some), len(some.position), f"{self.rule!r}.slots")
        kept = slots != REJECTED
        member = np.searchsorted(self.clients, some.client[kept])
        return Arriving(
            rounds[due][kept],
            self.places[member] + slots[kept],
            self.numbers[member] + some.position[kept],
        )
