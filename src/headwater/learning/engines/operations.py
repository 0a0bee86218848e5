"""What a model does, and what it costs: the operations that run when it answers."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from headwater.learning.problem import Problem


class Operations(TorchDispatchMode):
    """Notes the operations on tensors that run within a block.

    Attributes:
        names: one per operation, such as "aten::mm".
        floating: floating-point operations of the products and convolutions among them.

    Example:
        >>> with Operations() as seen:
        ...     product = torch.ones(2, 3) @ torch.ones(3, 4)
        >>> seen.names[-1], seen.floating
        ('aten::mm', 48)
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []
        self.floating = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # PyTorch would load its whole compiler, only to tell it to stay away from here: more than a
        # second of every first run, and 60 MB.
        return False

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        result = function(*args, **given)
        self.names.append(function.name().split(".")[0])
        formula = flop_registry.get(function.overloadpacket)
        if formula is not None:
            self.floating += formula(*args, **given, out_val=result)
        return result


def operations(problem: Problem) -> float:
    """Floating-point operations of a forward and backward pass with one sample, about."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]), Operations() as seen:
        problem.model(problem.x[:1])
    return 3.0 * max(seen.floating, 2 * problem.size)
