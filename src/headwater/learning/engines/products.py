"""Matrix products by the library that is faster on this processor.

PyTorch multiplies float32 matrices with MKL, which on processors that are not Intel's does without
AVX-512. oneDNN, which PyTorch brings along for its compiled models, does not: on a Zen 5 core a
large product takes place at 260 GFLOP/s instead of 119, one with 32 rows at 200 instead of 105.
Without AVX-512 MKL is the faster one.

Which of them is taken follows from the processor, the precision and the sizes alone, so a run has
the same bits every time; between processors they differ as they always did, by rounding.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

_FEWEST = 4_000_000
"""Operations of a product below which it is not worth oneDNN's preparations."""
_LONG = 256
"""Terms of a sum from which on a product is worth a place of its own before it is added."""


def _there() -> bool:
    """Is oneDNN's product there, and is it the faster one?"""
    return (
        torch.backends.mkldnn.is_available()
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


WITH_AVX512 = _there()


def times(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b, for every row of x, outside of autograd.

    >>> times(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([0.5]))
    tensor([[11.5000]])
    """
    if _by_onednn(x, weight):
        found: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return found
    return functional.linear(x, weight, bias)


def plus_times(base: Tensor, x: Tensor, weight: Tensor, out: Tensor) -> None:
    """out = base + x Wᵀ; it may be the base itself.

    >>> sums = torch.ones(1, 1)
    >>> plus_times(sums, torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]), out=sums); sums
    tensor([[12.]])
    """
    if _by_onednn(x, weight):
        torch.add(base, times(x, weight), out=out)
    else:
        torch.addmm(base, x, weight.T, out=out)


def add_times(target: Tensor, g: Tensor, x: Tensor) -> None:
    """target += gᵀx, where it lies.

    >>> target = torch.ones(1, 2)
    >>> add_times(target, torch.tensor([[2.0]]), torch.tensor([[3.0, 4.0]])); target
    tensor([[7., 9.]])
    """
    # MKL adds to the target; oneDNN's product has to be formed first, which pays if it is long.
    if len(g) >= _LONG and _by_onednn(g.T, x.T):
        target.add_(times(g.T, x.T))
    else:
        target.addmm_(g.T, x)


def _by_onednn(x: Tensor, weight: Tensor) -> bool:
    return (
        WITH_AVX512
        and x.dtype == torch.float32
        and x.device.type == "cpu"
        and 2 * x.numel() * len(weight) >= _FEWEST
    )
