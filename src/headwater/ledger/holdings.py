"""Who holds which sample, and when: arrivals and memory rules, unrolled for all clients at once.

Under a memory rule a sample is held from one round to another and never comes back. So two numbers
a sample say it all, for any arrival process, any rule and any number of rounds: the round in which
it enters the memory and the round by which it has left. The paper's index sets I_m(t) are {i :
enter_i ≤ t < leave_i}.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.ledger.arrivals import Arrivals, Window
from headwater.ledger.memory import REJECTED, Memory
from headwater.ledger.samples import Samples

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Holdings:
    """The rounds in which each sample is in its client's memory.

    Sample numbers run through the clients one after the other, within a client in order of arrival.

    Attributes:
        offsets: samples offsets[m] … offsets[m + 1] − 1 belong to client m.
        enter: first round in memory.
        leave: first round no longer in memory (rounds + 1 if it stays to the end).
        rounds: T, the number of rounds of the run.
    """

    offsets: Counts
    enter: NDArray[np.int32]
    leave: NDArray[np.int32]
    rounds: int

    @property
    def clients(self) -> int:
        """M, the number of clients."""
        return len(self.offsets) - 1

    @cached_property
    def client(self) -> NDArray[np.int32]:
        """The client that each sample belongs to."""
        return np.repeat(np.arange(self.clients, dtype=np.int32), np.diff(self.offsets))

    @cached_property
    def rounds_held(self) -> NDArray[np.int32]:
        """τ: for how many rounds each sample is in memory; 0 if it never gets there."""
        return self.leave - self.enter

    @cached_property
    def samples(self) -> Counts:
        """N_m: how many samples of each client are in its memory for at least one round."""
        return self.per_client(self.rounds_held > 0)

    @cached_property
    def historical(self) -> NDArray[np.bool_]:
        """Clients whose memory does not change during the run: nothing enters after round 1,
        nothing leaves."""
        stays = (self.enter == 1) & (self.leave == self.rounds + 1)
        moves = (self.rounds_held > 0) & ~stays
        return (self.per_client(moves) == 0) & (self.samples > 0)

    def per_client(self, values: NDArray[Any]) -> NDArray[Any]:
        """The sum of one value a sample over each client's samples."""
        totals = np.concatenate([[0], np.cumsum(values, dtype=_wide(values))])
        return totals[self.offsets[1:]] - totals[self.offsets[:-1]]

    def held(self, round: int) -> NDArray[np.bool_]:
        """The samples that are in memory in this round."""
        return (self.enter <= round) & (round < self.leave)

    @cached_property
    def changes(self) -> NDArray[np.bool_]:
        """Does any memory change from round t − 1 to round t? One flag a round, t = 1 … T + 1."""
        flags = np.zeros(self.rounds + 2, bool)
        there = self.rounds_held > 0
        flags[self.enter[there]] = flags[self.leave[there]] = True
        return flags


def unroll(
    counts: Sequence[int] | Counts,
    arrivals: Arrivals | Sequence[Arrivals],
    memory: Memory | Sequence[Memory],
    rounds: int,
    seed: int = 0,
) -> Holdings:
    """Work out who holds which sample when.

    Args:
        counts: how many samples each client will see if the run is long enough.
        arrivals: one process for all clients, or one a client.
        memory: one rule for all clients, or one a client.
        rounds: T.
        seed: for random arrivals and random rules; a client's draws do not depend on the other
            clients.

    >>> from headwater import Constant, Fifo, Keep, Once
    >>> h = unroll([2, 4], [Once(), Constant(1)], [Keep(), Fifo(2)], rounds=3)
    >>> h.enter, h.leave
    (array([1, 1, 1, 2, 3, 4], dtype=int32), array([4, 4, 3, 4, 4, 4], dtype=int32))
    >>> h.samples, h.historical
    (array([2, 3]), array([ True, False]))
    """
    sizes = _check_counts(counts, rounds)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    enter = np.empty(offsets[-1], np.int32)
    leave = np.empty(offsets[-1], np.int32)
    for process, rule, members in _groups(arrivals, memory, len(sizes)):
        _check_batch(process, rule, members, sizes)
        samples = Samples.of(members, sizes[members], seed)
        where = _sample_numbers(offsets, members, samples)
        enter[where], leave[where] = _intervals(process, rule, samples, rounds)
    return Holdings(offsets, enter, leave, rounds)


def _intervals(
    process: Arrivals, rule: Memory, samples: Samples, rounds: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Enter and leave of a group of clients with the same process and rule."""
    last = min(process.last, rounds) if isinstance(process, Window) else rounds
    enter = np.minimum(process.rounds(samples), last + 1)
    if rule.capacity is None:
        return enter, np.full_like(enter, last + 1)
    slots = rule.slots(samples)
    leave = _next_in_slot(samples, slots, enter, last + 1, rule.capacity)
    return enter, np.where(slots == REJECTED, enter, leave)


def _next_in_slot(
    samples: Samples, slots: NDArray[np.int64], enter: NDArray[np.int64], end: int, capacity: int
) -> NDArray[np.int64]:
    """The round in which the next sample is put into the same slot of the same client, or
    ``end``."""
    slot_of_all = samples.client * (capacity + 1) + slots + 1
    order = np.argsort(slot_of_all, kind="stable")  # stable: within a slot in order of arrival
    same = slot_of_all[order[1:]] == slot_of_all[order[:-1]]
    leave = np.full_like(enter, end)
    leave[order[:-1][same]] = enter[order[1:][same]]
    return leave


def _groups(
    arrivals: Arrivals | Sequence[Arrivals], memory: Memory | Sequence[Memory], clients: int
) -> list[tuple[Arrivals, Memory, Counts]]:
    """Clients with equal rules are handled together: cost is by kind of client, not by client."""
    everyone = np.arange(clients)
    if isinstance(arrivals, Arrivals) and isinstance(memory, Memory):
        return [(arrivals, memory, everyone)]
    processes = [arrivals] * clients if isinstance(arrivals, Arrivals) else arrivals
    rules = [memory] * clients if isinstance(memory, Memory) else memory
    if len(processes) != clients or len(rules) != clients:
        raise InputError(
            f"one arrival process and one memory rule a client: {clients} clients, but "
            f"{len(processes)} arrival processes and {len(rules)} memory rules"
        )
    kinds: dict[tuple[Arrivals, Memory], int] = {}
    kind = np.fromiter(
        (kinds.setdefault(k, len(kinds)) for k in zip(processes, rules, strict=True)), int
    )
    by_kind = np.argsort(kind, kind="stable")
    members = np.split(by_kind, np.flatnonzero(np.diff(kind[by_kind])) + 1)
    return [(process, rule, who) for (process, rule), who in zip(kinds, members, strict=True)]


def _sample_numbers(offsets: Counts, members: Counts, samples: Samples) -> Counts | slice:
    if len(members) == len(offsets) - 1:
        return slice(None)
    return offsets[samples.client] + samples.position


def _check_counts(counts: Sequence[int] | Counts, rounds: int) -> Counts:
    sizes = np.asarray(counts)
    if sizes.ndim != 1 or not len(sizes):
        raise InputError("no clients: give at least one")
    if sizes.dtype.kind not in "iu":
        raise InputError(f"samples a client: whole numbers; got {sizes.dtype}")
    if (sizes < 1).any():
        raise InputError(
            f"client {int(np.argmax(sizes < 1))} is empty: every client needs at least one sample"
        )
    if (
        isinstance(rounds, bool)
        or not isinstance(rounds, int | np.integer)
        or not 1 <= rounds < 2**30
    ):
        raise InputError(f"rounds: a whole number, at least 1; got {rounds!r}")
    return sizes.astype(np.int64)


def _check_batch(process: Arrivals, rule: Memory, members: Counts, sizes: Counts) -> None:
    """The paper's b_m ≤ C_m: what surely arrives in one round must fit."""
    batch = process.largest_batch(int(sizes[members].max()))
    if rule.capacity is not None and batch > rule.capacity:
        who = members[np.argmax(sizes[members])]
        raise InputError(
            f"client {who}: {process} brings {batch} samples in one round, {rule} holds "
            f"{rule.capacity}; "
            "lower the rate or raise the capacity"
        )


def _wide(values: NDArray[np.generic]) -> type[np.generic]:
    return np.float64 if values.dtype.kind == "f" else np.int64
