"""Layers whose backward pass hands its products on instead of forming gradients.

For a linear layer with input x and output gradient g, the gradient of the weights is gᵀx. A
redirected layer does not form it: it hands g and x to whoever wants to add the product somewhere.
The same holds for plain recurrent layers (:mod:`headwater.learning.engines.recurrent`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from headwater.learning.engines import recurrent
from headwater.learning.engines.products import times
from headwater.learning.engines.recurrent import Add

Layers = Mapping[str, nn.Module]
"""Linear and plain recurrent layers, by the beginning of their parameters' names."""


def redirect(layers: Layers, add: Add) -> None:
    """From now on, the backward passes of these layers call ``add``."""
    for prefix, layer in layers.items():
        redirected = _linear if isinstance(layer, nn.Linear) else _recurrent
        layer.forward = MethodType(redirected(prefix, add), layer)


@contextmanager
def redirected(layers: Layers, add: Add) -> Iterator[None]:
    """Redirect these layers for a while."""
    redirect(layers, add)
    try:
        yield
    finally:
        for layer in layers.values():
            del layer.forward  # the class's own comes to light again


def _linear(prefix: str, add: Add) -> Any:
    # Arguments are named as PyTorch names them: a model may call its layers by name.
    def forward(module: nn.Linear, input: Tensor) -> Tensor:
        return _Linear.apply(input, module.weight, module.bias, add, prefix)  # type: ignore[no-untyped-call]

    return forward


def _recurrent(prefix: str, add: Add) -> Any:
    def forward(module: nn.RNN, input: Any, hx: Any = None) -> Any:
        if hx is not None or not isinstance(input, Tensor):
            return nn.RNN.forward(module, input, hx)
        return recurrent.forward(module, input, prefix, add)

    return forward


class _Linear(torch.autograd.Function):
    """A linear layer whose backward pass calls ``add`` instead of forming a gradient."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, add: Add, prefix: str
    ) -> Tensor:
        ctx.x = x
        ctx.weight = weight.detach()
        ctx.biased = bias is not None
        ctx.add = add
        ctx.prefix = prefix
        return times(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        # This product comes first: what is added to may be the weight itself.
        before = times(g, ctx.weight.T) if ctx.needs_input_grad[0] else None
        flat = g.reshape(-1, g.shape[-1])
        ctx.add(ctx.prefix + "weight", flat, ctx.x.reshape(-1, ctx.x.shape[-1]))
        if ctx.biased:
            ctx.add(ctx.prefix + "bias", flat, None)
        return before, None, None, None, None
