"""What each client brings to a run, counted as drawn: columns, one number per client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from headwater.fleet.fleet import Flags
from headwater.ledger.client_terms import ClientTerms
from headwater.ledger.drawing import Drawing
from headwater.ledger.holdings import Counts, Holdings
from headwater.randomness import Floats


@dataclass(frozen=True)
class Terms:
    """What each of some clients brings to a run, as columns.

    Attributes:
        samples: N_m, the samples that arrive within the run.
        fresh: whether the memory changes from round to round.
        memory: how many samples are held on average.
        noise: v_m, how much the samples that a round draws differ from those of the run.
        drawable: N_m as drawn: with mini-batches a run may not get to see all that is held.
        absence: how unevenly the client counts over the rounds; 0 if it is always there.
    """

    samples: Floats
    fresh: Flags
    memory: Floats
    noise: Floats
    drawable: Floats
    absence: Floats

    @classmethod
    def of_holdings(cls, holdings: Holdings) -> Self:
        """Add up who holds what when."""
        terms = ClientTerms(holdings)
        return cls(
            samples=holdings.collected.astype(np.float64),
            fresh=~holdings.historical,
            memory=holdings.per_client(holdings.rounds_held) / holdings.rounds,
            noise=terms.noise(),
            drawable=terms.drawable,
            absence=terms.absence,
        )

    @classmethod
    def of_history(cls, samples: Counts, rounds: int, drawing: Drawing) -> Self:
        """Clients that hold all their samples in every round.

        Each round draws from the same N: its noise is r/N, with r the relative variance of how
        often a sample is drawn, and over T rounds what is never drawn is a T-th of that.
        """
        held = samples.astype(np.float64)
        redraws = drawing.redraws(held)
        return cls(
            samples=held,
            fresh=np.zeros(len(held), np.bool_),
            memory=held,
            noise=redraws / held,
            drawable=held / (1 + redraws / rounds),
            absence=np.zeros(len(held)),
        )

    def taken(self, rows: Counts) -> Terms:
        """Some of these clients, in this order, each as often as it is asked for."""
        return Terms(
            samples=self.samples[rows],
            fresh=self.fresh[rows],
            memory=self.memory[rows],
            noise=self.noise[rows],
            drawable=self.drawable[rows],
            absence=self.absence[rows],
        )

    @classmethod
    def together(cls, parts: Sequence[Terms]) -> Self:
        """The clients of all parts, one part after the other."""
        return cls(
            samples=np.concatenate([part.samples for part in parts]),
            fresh=np.concatenate([part.fresh for part in parts]),
            memory=np.concatenate([part.memory for part in parts]),
            noise=np.concatenate([part.noise for part in parts]),
            drawable=np.concatenate([part.drawable for part in parts]),
            absence=np.concatenate([part.absence for part in parts]),
        )
