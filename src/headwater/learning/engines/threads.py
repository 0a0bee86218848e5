"""One thread, unless a pass through the model is large.

PyTorch splits an operation over threads and waits for the slowest of them. For small tensors that
brings nothing on a quiet machine; and as soon as anything else uses a core, every operation waits
until the thread that was put aside comes back, which makes a round ten times slower and more. Cores
are for worker processes, which wait for each other once in a round.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headwater.learning.engines.engine import Engine
from headwater.learning.engines.fused import comfortable_batch
from headwater.learning.engines.operations import operations
from headwater.learning.problem import Problem
from headwater.ledger.orders import Orders

_LARGE = 1e8
"""Floating-point operations of a pass that are worth several threads: a few milliseconds of one."""
_TOGETHER = 384
"""Samples of several clients that go through a model together, about, when there are many steps."""


class OneThread:
    """Any engine with one thread; afterwards there are as many as the caller had.

    Attributes:
        inside: the engine.
    """

    def __init__(self, inside: Engine) -> None:
        self.inside = inside

    def moves(self, parameters: Tensor, orders: Orders, learning_rate: float) -> Tensor:
        """What the engine inside says."""
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return self.inside.moves(parameters, orders, learning_rate)
        finally:
            torch.set_num_threads(before)

    def close(self) -> None:
        """Close the engine inside."""
        self.inside.close()


def one_thread_is_enough(problem: Problem, orders: Orders) -> bool:
    """Are the passes of rounds like this one small?

    The answer depends on nothing but the work, because sums over threads are rounded otherwise: the
    same run has the same bits, whatever else the machine does.
    """
    steps, samples = orders.samples.shape
    most = comfortable_batch(problem) if steps == 1 else _TOGETHER
    mean_batch = samples / len(orders.clients)
    return operations(problem) * min(samples, max(most, mean_batch)) < _LARGE
