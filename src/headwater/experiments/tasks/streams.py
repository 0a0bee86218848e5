"""How a task's samples reach its clients, as in the paper's appendix on experiments.

Historical clients hold all their samples from the first round to the last. Fresh clients come in
three kinds: those of CIFAR and of the synthetic task gather samples at a constant rate and keep the
newest ones; those of FEMNIST and Shakespeare are there for a round or two with all they have; and
phones do both, they come, gather for a while, and go.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.experiments.tasks.partition import generator
from headwater.learning.federation import Federation, Part
from headwater.ledger.arrivals import Arrivals, Constant, Once, Window
from headwater.ledger.memory import Fifo, Keep, Memory

Flags = NDArray[np.bool_]


def steady(train: Part, historical: int, rounds: int, test: Part) -> Federation:
    """Fresh clients gather b_m = N_m / T samples per round and keep as many, ⌈b_m⌉.

    The first clients are historical. A stream lasts exactly as long as the run, and a rate may be a
    fraction: with 0.5 a new sample comes every second round, and is held until the next one comes.
    """
    rates = train.counts[historical:] / rounds
    arrivals: list[Arrivals] = [Once()] * historical + [Constant(float(rate)) for rate in rates]
    memory: list[Memory] = [Keep()] * historical + [Fifo(math.ceil(rate)) for rate in rates]
    return Federation(train, arrivals, memory, test)


def visiting(
    train: Part, historical: Flags, rounds: int, stay: int, seed: int, test: Part
) -> Federation:
    """Fresh clients come in random order, each for ``stay`` rounds at most, evenly over the run.

    The k-th of F fresh clients comes in round 1 + ⌊kT/F⌋, so that no round is without one as long
    as T ≤ stay · F.
    """
    fresh = np.flatnonzero(~historical)
    if rounds > stay * len(fresh):
        raise InputError(
            f"rounds={rounds}: {len(fresh)} fresh clients that are there for at most {stay} rounds "
            f"each leave rounds without any; take at most {stay * len(fresh)} rounds, or a smaller "
            "historical fraction"
        )
    arrivals: list[Arrivals] = [Once()] * len(historical)
    for k, client in enumerate(generator(seed, "visits").permutation(fresh)):
        first = 1 + k * rounds // len(fresh)
        arrivals[client] = Window(first, min(first + stay - 1, rounds))
    return Federation(train, arrivals, [Keep()] * len(historical), test)


def gathering(
    train: Part,
    historical: Flags,
    rounds: int,
    stay: int,
    capacity: int,
    seed: int,
    test: Part,
) -> Federation:
    """Fresh clients come in random order; in ``stay`` rounds each one's whole stream goes by.

    The k-th of F fresh clients comes in round 1 + ⌊k (T − stay) / (F − 1)⌋: the first is there from
    the start and the last until the end. It keeps its ``capacity`` newest samples, or as many as
    come in a round if those are more, and takes them along when it goes.
    """
    fresh = generator(seed, "visits").permutation(np.flatnonzero(~historical))
    stay = min(stay, rounds)
    arrivals: list[Arrivals] = [Once()] * len(historical)
    memory: list[Memory] = [Keep()] * len(historical)
    for k, client in enumerate(fresh):
        first = 1 + k * (rounds - stay) // max(1, len(fresh) - 1)
        rate = float(train.counts[client] / stay)
        arrivals[client] = Window(first, first + stay - 1, Constant(rate))
        memory[client] = Fifo(max(capacity, math.ceil(rate)))
    return Federation(train, arrivals, memory, test)
