"""Who holds which sample, and when.

Under a memory rule a sample is held from one round to another and never comes back. So two numbers
per sample say it all, for any arrival process, any rule and any number of rounds: the round in
which it enters the memory and the round by which it has left. The paper's index sets I_m(t) are
{i : enter_i ≤ t < leave_i}.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.ledger.drawing import Drawing

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Holdings:
    """The rounds in which each sample is in its client's memory.

    Sample numbers run through the clients one after the other, within a client in order of arrival.

    Attributes:
        offsets: samples offsets[m] … offsets[m + 1] − 1 belong to client m.
        enter: the first round in which each sample is in memory.
        leave: the first round in which it no longer is (rounds + 1 if it stays to the end).
        rounds: T, the number of rounds of the run.
        drawing: how much of what is held a round draws; all of it unless told otherwise.
    """

    offsets: Counts
    enter: NDArray[np.int32]
    leave: NDArray[np.int32]
    rounds: int
    drawing: Drawing = field(default_factory=Drawing)

    @property
    def clients(self) -> int:
        """The number of clients, M."""
        return len(self.offsets) - 1

    @cached_property
    def client(self) -> NDArray[np.int32]:
        """The client that each sample belongs to."""
        return np.repeat(np.arange(self.clients, dtype=np.int32), np.diff(self.offsets))

    @cached_property
    def rounds_held(self) -> NDArray[np.int32]:
        """For how many rounds each sample is in memory; 0 if it never gets there."""
        return self.leave - self.enter

    @cached_property
    def collected(self) -> Counts:
        """N_m: how many samples of each client are in its memory for at least one round."""
        return self.per_client(self.rounds_held > 0)

    @cached_property
    def historical(self) -> NDArray[np.bool_]:
        """Clients whose memory never changes: nothing enters after round 1, nothing leaves."""
        stays = (self.enter == 1) & (self.leave == self.rounds + 1)
        moves = (self.rounds_held > 0) & ~stays
        return (self.per_client(moves) == 0) & (self.collected > 0)

    def per_client(self, values: NDArray[Any]) -> NDArray[Any]:
        """Add one value per sample over each client's samples."""
        # Each client is added up by itself: a difference of running sums over all clients would
        # lose the small ones beside the large. No client is empty, as reduceat needs it.
        wide = np.float64 if values.dtype.kind == "f" else np.int64
        return np.add.reduceat(values, self.offsets[:-1], dtype=wide)

    def held(self, round: int) -> NDArray[np.bool_]:
        """Mark the samples that are in memory in this round."""
        return (self.enter <= round) & (round < self.leave)

    @cached_property
    def changes(self) -> NDArray[np.bool_]:
        """Whether any memory changes from round t − 1 to round t; one flag for t = 0 … T + 1."""
        flags = np.zeros(self.rounds + 2, bool)
        there = self.rounds_held > 0
        flags[self.enter[there]] = True
        flags[self.leave[there]] = True
        return flags
