"""A pilot: the first rounds of a run, learned only to see where they lead."""

from __future__ import annotations

from contextlib import closing
from itertools import islice

import torch
from torch import Tensor

from headwater.learning.algorithm import State, learn
from headwater.learning.engines import choose
from headwater.learning.problem import Problem
from headwater.ledger.holdings import Holdings
from headwater.ledger.ledger import Ledger
from headwater.ledger.orders import LocalWork
from headwater.ledger.strategies import Uniform


def pilot(
    problem: Problem, holdings: Holdings, local_work: LocalWork, rate: float, rounds: int
) -> Tensor:
    """θ after the first rounds, in which all samples of the run count alike.

    Args:
        problem: the model, its loss and the data.
        holdings: who holds what when.
        local_work: local steps and batches.
        rate: η.
        rounds: how many; with none, θ(1).
    """
    ledger = Ledger.weigh(holdings, Uniform())
    start = State.start(problem.initial())
    engine = choose(problem, local_work.orders(ledger.round(1)), workers=0)
    with closing(engine), torch.random.fork_rng(devices=[]):
        learned = learn(start, ledger, local_work, engine, [rate] * holdings.rounds)
        parameters = start.parameters
        for state, _ in islice(learned, rounds):
            parameters = state.parameters
    return parameters
