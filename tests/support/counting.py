"""What a round costs, counted and not timed: the same on every machine, whatever else runs on it.

Seconds cannot be tested; numbers of calls and bytes can. A slow path that comes back (a call per
client, a copy of the model per step) shows in them at once.
"""

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@dataclass(frozen=True)
class Cost:
    """Of one round.

    Attributes:
        tensor_calls: operations on tensors, those of the backward pass included.
        tensor_bytes: memory of the tensors that they made.
        python_calls: calls of functions, written in Python or in C.
    """

    tensor_calls: float
    tensor_bytes: float
    python_calls: float


class TensorCounter(TorchDispatchMode):
    """Counts the operations on tensors in a block, and the bytes of the tensors they make."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls = 0
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Do the operation and note what it made: views and changes in place make nothing."""
        made = func(*args, **(kwargs or {}))
        given = {
            storage(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)
        }
        new = [
            leaf
            for leaf in tree_leaves(made)
            if isinstance(leaf, torch.Tensor) and storage(leaf) not in given
        ]
        self.calls += 1
        self.bytes += sum(leaf.numel() * leaf.element_size() for leaf in new)
        return made


def storage(tensor: torch.Tensor) -> int:
    """Where a tensor's memory begins."""
    return tensor.untyped_storage().data_ptr()


class CallCounter:
    """Counts the calls of functions in a block; the garbage collector, whose time comes by chance,
    waits."""

    def __init__(self) -> None:
        self.calls = 0

    def __enter__(self) -> "CallCounter":
        gc.collect()
        gc.disable()
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        gc.enable()

    def _note(self, _: FrameType, event: str, __: Any) -> None:
        self.calls += event in ("call", "c_call")


def of_a_round(run: Callable[[int], object], few: int = 2, many: int = 6) -> Cost:
    """The cost of a round of something that can be run for any number of rounds.

    The difference between many rounds and few: what is done once cancels out.
    """
    tensors, calls = [], []
    for rounds in (few, many):
        with TensorCounter() as tensor:
            run(rounds)
        with CallCounter() as call:
            run(rounds)
        tensors.append((tensor.calls, tensor.bytes))
        calls.append(call.calls)
    each = many - few
    return Cost(
        (tensors[1][0] - tensors[0][0]) / each,
        (tensors[1][1] - tensors[0][1]) / each,
        (calls[1] - calls[0]) / each,
    )
