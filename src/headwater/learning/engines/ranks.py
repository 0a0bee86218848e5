"""Clients spread over the processes that torchrun has started, on this machine or on many.

Every rank holds the same state and works out the same orders, so nothing has to be sent out: each
does its run of the clients, and one all-reduce adds the moves up, 2 · 4 · d bytes for each rank and
round whatever the number of ranks and clients. The sum has the same bits everywhere, so the ranks
stay together without ever comparing notes.
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import torch
from torch import Tensor

from headwater.learning import torchrun
from headwater.learning.engines.engine import Engine
from headwater.learning.engines.parts import balanced
from headwater.learning.problem import Problem
from headwater.ledger.orders import Orders


class Ranks:
    """Any engine for this rank's clients; the moves of all ranks added up.

    Attributes:
        inside: the engine.
    """

    def __init__(self, inside: Engine, problem: Problem, orders: Orders) -> None:
        self.inside = inside
        torchrun.require_same(_name(problem, orders))

    def moves(self, parameters: Tensor, orders: Orders, learning_rate: float) -> Tensor:
        """Σ_m p_m(t) (θ_m(t, E+1) − θ(t)) over the clients of all ranks."""
        mine = _part(orders, torchrun.rank())
        if len(mine.clients):
            total = self.inside.moves(parameters, mine, learning_rate)
        else:
            total = torch.zeros_like(parameters)
        return torchrun.add_up(total)

    def close(self) -> None:
        """Close the engine inside; the ranks stay connected for what comes next."""
        self.inside.close()


def largest_part(orders: Orders) -> Orders:
    """What the busiest rank does in such a round."""
    parts = [_part(orders, k) for k in range(torchrun.ranks())]
    return max(parts, key=lambda part: part.samples.size)


def _part(orders: Orders, rank: int) -> Orders:
    """The run of clients that is one rank's; there may be none."""
    edges = balanced(orders, torchrun.ranks())
    return orders.part(edges[rank], edges[rank + 1])


def _name(problem: Problem, orders: Orders) -> str:
    """Of where a run begins: enough to see that ranks have drawn different models or samples."""
    digest = sha256(repr((problem.x.shape, problem.seed)).encode())
    some = np.linspace(0, len(problem.x) - 1, 100).astype(np.int64)
    rows = problem.x[torch.from_numpy(some)].contiguous().numpy()
    for array in (problem.initial().numpy(), rows, orders.shares, orders.samples):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
