"""How a task's samples reach its clients: the paper's arrival processes (its appendix on
experiments).

Historical clients hold all their samples from the first round to the last. Fresh clients come in
two kinds: those of CIFAR and of the synthetic task, which gather samples at a constant rate and
keep the newest ones; and those of FEMNIST and Shakespeare, which are there for a round or two with
all they have.
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


def steady(train: Part, historical: int, rounds: int, test: Part) -> Federation:
    """The first clients are historical; the others gather b_m = N_m / T samples a round and keep as
    many (⌈b_m⌉).

    So a stream lasts exactly as long as the run, and a rate may be a fraction: with 0.5 a new
    sample comes every second round, and is held until the next one comes.
    """
    rates = train.counts[historical:] / rounds
    arrivals: list[Arrivals] = [Once()] * historical + [Constant(float(rate)) for rate in rates]
    memory: list[Memory] = [Keep()] * historical + [Fifo(math.ceil(rate)) for rate in rates]
    return Federation(train, arrivals, memory, test)


def visiting(
    train: Part, historical: NDArray[np.bool_], rounds: int, stay: int, seed: int, test: Part
) -> Federation:
    """Fresh clients are there for ``stay`` rounds at most, in random order, evenly spread over the
    rounds.

    The k-th of F fresh clients comes in round 1 + ⌊kT/F⌋, so that no round is without one as long
    as T ≤ stay · F.
    """
    fresh = np.flatnonzero(~historical)
    if rounds > stay * len(fresh):
        raise InputError(
            f"rounds={rounds}: {len(fresh)} fresh clients that are there for at most {stay} rounds "
            "each leave "
            f"rounds without any; take at most {stay * len(fresh)} rounds, or a smaller historical "
            "fraction"
        )
    arrivals: list[Arrivals] = [Once()] * len(historical)
    for k, client in enumerate(generator(seed, "visits").permutation(fresh)):
        first = 1 + k * rounds // len(fresh)
        arrivals[client] = Window(first, min(first + stay - 1, rounds))
    return Federation(train, arrivals, [Keep()] * len(historical), test)
