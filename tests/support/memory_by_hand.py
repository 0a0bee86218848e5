"""Memories run by hand: one client, one round, one sample after the other, in sets and loops.

The reference for holdings and ledger. It shares nothing with them but the definition of the random
draws, which are a hash of (seed, purpose, client, arrival number).
"""

from __future__ import annotations

import math
from collections import deque
from fractions import Fraction

import headwater as hw
from headwater.randomness import Purpose, uniform


def arriving(process, client, count, rounds, seed):
    """The arrival numbers of each round: {t: [0, 1, …]}."""
    if isinstance(process, hw.Window):
        inner = arriving(process.arrivals, client, count, process.last - process.first + 1, seed)
        return {t + process.first - 1: samples for t, samples in inner.items()}
    if isinstance(process, hw.Poisson):
        return _poisson(process.rate, client, count, rounds, seed)
    by_end = [min(count, _arrived(process, count, t)) for t in range(rounds + 1)]
    return {t: list(range(by_end[t - 1], by_end[t])) for t in range(1, rounds + 1)}


def _arrived(process, count, t):
    """N_m(t): how many samples have come by the end of round t."""
    if t == 0:
        return 0
    if isinstance(process, hw.Once):
        return count
    if isinstance(
        process, hw.Constant
    ):  # a rate of b per round: the ceiling of b·t, in exact arithmetic
        return math.ceil(Fraction(str(process.rate)) * t)
    return sum(process.counts[:t])


def _poisson(rate, client, count, rounds, seed):
    clock, arrivals = 0.0, {t: [] for t in range(1, rounds + 1)}
    for i in range(count):
        clock += -math.log(1 - float(uniform(seed, Purpose.ARRIVALS, client, i))) / rate
        if clock < rounds:
            arrivals[1 + int(clock)].append(i)
    return arrivals


class Memory:
    """One client's memory: Update of Algorithm 1, one sample at a time."""

    def __init__(self, rule, client, seed):
        self.rule, self.client, self.seed = rule, client, seed
        self.kept = deque()

    def update(self, sample):
        full = not isinstance(self.rule, hw.Keep) and len(self.kept) == self.rule.capacity
        if full and isinstance(self.rule, hw.Fifo):
            self.kept.popleft()
        # Algorithm R: sample i takes a place among i + 1, of which the memory has only the first
        # few
        elif full:
            place = int(
                float(uniform(self.seed, Purpose.MEMORY, self.client, sample)) * (sample + 1)
            )
            if place < len(self.kept):
                self.kept[place] = sample
            return
        self.kept.append(sample)


def memories(counts, arrivals, rules, rounds, seed):
    """I_m(t): for each round t a list of each client's set of samples."""
    held = {t: [set() for _ in counts] for t in range(1, rounds + 1)}
    for m, (count, process, rule) in enumerate(zip(counts, arrivals, rules, strict=True)):
        memory = Memory(rule, m, seed)
        coming = arriving(process, m, count, rounds, seed)
        last = process.last if isinstance(process, hw.Window) else rounds
        for t in range(1, min(last, rounds) + 1):
            for sample in coming.get(t, []):
                memory.update(sample)
            held[t][m] = set(memory.kept)
    return held


def rounds_held(held, m, i):
    """The rounds in which sample i of client m is in memory."""
    return [t for t in held if i in held[t][m]]


def historical(held, m):
    """Does the client hold the same samples in every round, and any?"""
    return bool(held[1][m]) and all(held[t][m] == held[1][m] for t in held)


def collected(held, m):
    """The samples that are ever in memory."""
    return set().union(*(held[t][m] for t in held))
