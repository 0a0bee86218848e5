"""Arrivals and memory rules, unrolled for all clients at once into who holds what when."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwater.errors import InputError
from headwater.ledger.arrivals import Arrivals, Departures, Rounds
from headwater.ledger.checks import is_whole, whole_numbers
from headwater.ledger.holdings import Counts, Holdings
from headwater.ledger.memory import REJECTED, Memory, Slots
from headwater.ledger.samples import Samples

MOST_ROUNDS = 2**30 - 1
"""The longest run: rounds are kept in 32 bits."""


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
        arrivals: one process for all clients, or one for each client.
        memory: one rule for all clients, or one for each client.
        rounds: T, the number of rounds.
        seed: for random arrivals and random rules; a client's draws do not depend on the other
            clients.

    Returns:
        The rounds in which each sample is held.

    Raises:
        InputError: if a setting cannot be used, or a rule does not keep to its protocol.

    Example:
        >>> from headwater import Constant, Fifo, Keep, Once
        >>> h = unroll([2, 4], [Once(), Constant(1)], [Keep(), Fifo(2)], rounds=3)
        >>> h.enter, h.leave
        (array([1, 1, 1, 2, 3, 4], dtype=int32), array([4, 4, 3, 4, 4, 4], dtype=int32))
        >>> h.collected, h.historical
        (array([2, 3]), array([ True, False]))
    """
    sizes = check_settings(counts, rounds, seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    enter = np.empty(offsets[-1], np.int32)
    leave = np.empty(offsets[-1], np.int32)
    for process, rule, members in kinds_of_clients(arrivals, memory, sizes):
        samples = Samples.of(members, sizes[members], seed)
        firsts = np.cumsum(sizes[members]) - sizes[members]
        where = _sample_numbers(offsets, members, samples)
        enter[where], leave[where] = _intervals(process, rule, samples, firsts, rounds)
    return Holdings(offsets, enter, leave, rounds)


def _intervals(
    process: Arrivals, rule: Memory, samples: Samples, firsts: Counts, rounds: int
) -> tuple[Rounds, Rounds]:
    """Enter and leave of a group of clients with the same process and rule.

    ``firsts`` are the places of the clients' first samples.
    """
    end: Rounds | int = rounds + 1
    if isinstance(process, Departures):
        end = np.minimum(_departures(process, samples), rounds + 1)
    arrival = _arrivals(process, samples, firsts)
    enter = np.minimum(arrival, end)
    leave = np.broadcast_to(np.asarray(end, np.int64), enter.shape)
    if rule.capacity is not None:
        slots = _slots(rule, rule.capacity, samples)
        leave = _next_in_slot(samples, slots, enter, leave)
        leave = np.where(slots == REJECTED, enter, leave)
    # What would come after its client has left never comes: it enters after the last round.
    never = arrival >= end
    return np.where(never, rounds + 1, enter), np.where(never, rounds + 1, leave)


def _next_in_slot(samples: Samples, slots: Slots, enter: Rounds, end: Rounds) -> Rounds:
    """The round in which the next sample is put into the same slot of the same client, or end."""
    places = int(slots.max()) + 2  # of a client: its slots in use, and one for what is rejected
    slot_of_all = samples.client * places + slots + 1
    order = np.argsort(slot_of_all, kind="stable")  # stable: within a slot in order of arrival
    same = slot_of_all[order[1:]] == slot_of_all[order[:-1]]
    leave = end.copy()
    leave[order[:-1][same]] = enter[order[1:][same]]
    return leave


def kinds_of_clients(
    arrivals: Arrivals | Sequence[Arrivals], memory: Memory | Sequence[Memory], sizes: Counts
) -> list[tuple[Arrivals, Memory, Counts]]:
    """Clients with equal rules are handled together: cost is by kind of client, not by client."""
    kinds = _groups(arrivals, memory, len(sizes))
    for process, rule, members in kinds:
        _check_capacity(process, rule, members, sizes)
    return kinds


def _groups(
    arrivals: Arrivals | Sequence[Arrivals], memory: Memory | Sequence[Memory], clients: int
) -> list[tuple[Arrivals, Memory, Counts]]:
    everyone = np.arange(clients)
    if isinstance(arrivals, Arrivals) and isinstance(memory, Memory):
        return [(arrivals, memory, everyone)]
    processes = [arrivals] * clients if isinstance(arrivals, Arrivals) else arrivals
    rules = [memory] * clients if isinstance(memory, Memory) else memory
    if len(processes) != clients or len(rules) != clients:
        raise InputError(
            f"one arrival process and one memory rule per client: {clients} clients, but "
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
    """Where a group's samples stand among all samples."""
    if len(members) == len(offsets) - 1:
        return slice(None)
    return offsets[samples.client] + samples.position


# ------------------------------------------------------------------ what users' own rules answer


def _arrivals(process: Arrivals, samples: Samples, firsts: Counts) -> Rounds:
    """Ask a process when samples arrive: from round 1 on, and never falling along a client."""
    who = f"{process!r}.rounds"
    rounds = whole_numbers(process.rounds(samples), len(samples.position), who)
    # Where the number falls another client must begin. To count the falls is the cheapest look at
    # all samples; where one is too many, it is looked up.
    falls = rounds[1:] < rounds[:-1]
    if np.count_nonzero(falls) > np.count_nonzero(falls[firsts[1:] - 1]):
        i = int(np.argmax(falls & (samples.position[1:] > 0))) + 1
        raise InputError(
            f"{who}: a sample must not arrive before the one in front of it; samples "
            f"{samples.position[i] - 1} and {samples.position[i]} of client {samples.client[i]} "
            f"arrive in rounds {rounds[i - 1]} and {rounds[i]}"
        )
    # So a client's first sample is its earliest.
    i = int(firsts[np.argmin(rounds[firsts])])
    if rounds[i] < 1:
        raise InputError(
            f"{who}: rounds are counted from 1; sample {samples.position[i]} of client "
            f"{samples.client[i]} has {rounds[i]}"
        )
    return rounds


def _departures(process: Departures, samples: Samples) -> Rounds:
    """Ask a process when clients leave: one round for all samples of a client."""
    who = f"{process!r}.departures"
    rounds = whole_numbers(process.departures(samples), len(samples.position), who)
    others = np.flatnonzero(rounds[1:] != rounds[:-1]) + 1
    others = others[samples.position[others] > 0]
    bad = int(np.argmin(rounds)) if rounds.min() < 1 else None
    if len(others) or bad is not None:
        i = int(others[0]) if bad is None else bad
        raise InputError(
            f"{who}: one round from 1 on per client, the same for all of its samples; sample "
            f"{samples.position[i]} of client {samples.client[i]} has {rounds[i]}"
        )
    return rounds


def _slots(rule: Memory, capacity: int, samples: Samples) -> Slots:
    """Ask a rule where samples are put: into slots that exist."""
    who = f"{rule!r}.slots"
    slots = whole_numbers(rule.slots(samples), len(samples.position), who)
    # Read as unsigned, what is below 0 is very large: one look finds whether to look closer.
    unsigned = slots.view(f"u{slots.itemsize}")
    if unsigned.max() >= capacity and (slots.min() < REJECTED or slots.max() >= capacity):
        i = int(np.argmax((slots < REJECTED) | (slots >= capacity)))
        raise InputError(
            f"{who}: slots from 0 to {capacity - 1}, or {REJECTED} for not kept; sample "
            f"{samples.position[i]} of client {samples.client[i]} has {slots[i]}"
        )
    return slots


# ------------------------------------------------------------------ settings


def check_settings(counts: Sequence[int] | Counts, rounds: int, seed: int) -> Counts:
    """The numbers of samples as an array, if a run can be had with these settings."""
    sizes = _check_counts(counts)
    _check_run(rounds, seed)
    return sizes


def _check_counts(counts: Sequence[int] | Counts) -> Counts:
    sizes = np.asarray(counts)
    if sizes.ndim != 1 or not len(sizes):
        raise InputError("no clients: give at least one")
    if sizes.dtype.kind not in "iu":
        raise InputError(f"samples per client: whole numbers; got {sizes.dtype}")
    if (sizes < 1).any():
        raise InputError(
            f"client {int(np.argmax(sizes < 1))} is empty: every client needs at least one sample"
        )
    return sizes.astype(np.int64)


def _check_run(rounds: int, seed: int) -> None:
    if not is_whole(rounds) or not 1 <= rounds <= MOST_ROUNDS:
        raise InputError(f"rounds: a whole number from 1 to {MOST_ROUNDS}; got {rounds!r}")
    if not is_whole(seed):
        raise InputError(f"seed: a whole number; got {seed!r}")


def _check_capacity(process: Arrivals, rule: Memory, members: Counts, sizes: Counts) -> None:
    """The paper's b_m ≤ C_m: what surely arrives in one round must fit."""
    capacity = rule.capacity
    if capacity is None:
        return
    if not is_whole(capacity) or capacity < 1:
        raise InputError(
            f"client {members[0]}: {rule!r} has the capacity {capacity!r}; it must be a whole "
            "number, at least 1, or None"
        )
    batch = process.largest_batch(int(sizes[members].max()))
    if not is_whole(batch):
        raise InputError(
            f"client {members[0]}: {process!r}.largest_batch: a whole number; got {batch!r}"
        )
    if batch > capacity:
        who = members[np.argmax(sizes[members])]
        raise InputError(
            f"client {who}: {process} brings {batch} samples in one round, {rule} holds "
            f"{capacity}; lower the rate or raise the capacity"
        )
