"""What a model costs."""

from __future__ import annotations

from contextlib import suppress

import torch
from torch.utils.flop_counter import FlopCounterMode

from headwater.learning.problem import Problem


def operations(problem: Problem) -> float:
    """Floating-point operations of a forward and backward pass with one sample, about."""
    counter = FlopCounterMode(display=False)
    # The counter stumbles over models whose answer is a view of a parameter; they cost little.
    with suppress(AssertionError), torch.no_grad(), torch.random.fork_rng(devices=[]), counter:
        problem.model(problem.x[:1])
    return 3.0 * max(counter.get_total_flops(), 2 * problem.size)
