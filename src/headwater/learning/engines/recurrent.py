"""Plain recurrent layers in as few and as large matrix products as there are.

h_t = tanh(W x_t + U h_{t−1} + b). Only U h_{t−1} has to wait for the step before; W x_t is one
product for all steps, and so is every gradient of the weights once all δ_t = (dL/dh_t + δ_{t+1} U)
(1 − h_t²) are known. Autograd would take a product a step for each of them, and a sum.

tanh z = 2σ(2z) − 1, and PyTorch's σ takes a third of the time of its tanh. So products are formed
as 2z, with weights that are doubled, which is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from headwater.learning.engines.products import plus_times, times

Add = Callable[[str, Tensor, Tensor | None], None]
"""Add gᵀ x (without an x: the sum of g) to where the named parameter's gradient is wanted."""


def handles(module: nn.RNN) -> bool:
    """tanh, one direction, no dropout, no projection: what is done here."""
    return (
        module.nonlinearity == "tanh"
        and not module.bidirectional
        and not module.dropout
        and not module.proj_size
    )


def forward(module: nn.RNN, x: Tensor, prefix: str, add: Add) -> tuple[Tensor, Tensor]:
    """The module's answer without a first state.

    That is the last layer's states, and the last state of each layer.
    """
    several = x.ndim == 3
    states = x if several else x.unsqueeze(1 - int(module.batch_first))
    states = states.transpose(0, 1) if module.batch_first else states
    last = []
    for layer in range(module.num_layers):
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")[: 4 if module.bias else 2]
        weights = [getattr(module, f"{kind}_l{layer}") for kind in kinds]
        names = [f"{prefix}{kind}_l{layer}" for kind in kinds]
        states = _RecurrentLayer.apply(states, add, names, *weights)  # type: ignore[no-untyped-call]
        last.append(states[-1])
    states = states.transpose(0, 1) if module.batch_first else states
    return (
        (states, torch.stack(last))
        if several
        else (states.squeeze(1 - int(module.batch_first)), torch.cat(last))
    )


class _RecurrentLayer(torch.autograd.Function):
    """One layer; time is the first dimension."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        add: Add,
        names: list[str],
        inward: Tensor,
        onward: Tensor,
        *biases: Tensor,
    ) -> Tensor:
        x = x.contiguous()
        bias = 2 * (biases[0] + biases[1]) if biases else None
        twice = times(x.flatten(0, 1), 2 * inward, bias)
        states = twice.unflatten(0, x.shape[:2])
        across = 2 * onward.T.contiguous()  # MKL is 3 % faster so, and there are many steps
        for t in range(len(states)):
            if t:
                plus_times(states[t], states[t - 1], across.T, out=states[t])
            states[t].sigmoid_().mul_(2).sub_(1)
        ctx.save_for_backward(x, states)
        ctx.kept = inward.detach(), onward.detach(), add, names
        return states

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, states = ctx.saved_tensors
        inward, onward, add, names = ctx.kept
        delta = torch.empty_like(states)
        delta[-1] = g[-1]
        for t in reversed(range(len(states))):
            if t + 1 < len(states):
                plus_times(g[t], delta[t + 1], onward.T, out=delta[t])
            torch.ops.aten.tanh_backward.grad_input(delta[t], states[t], grad_input=delta[t])
        flat = delta.flatten(0, 1)
        # Laid out so, a product with few inputs takes half the time; with many, as long as before.
        laid = inward.T.contiguous().T
        back = times(flat, laid.T).view_as(x) if ctx.needs_input_grad[0] else None
        add(names[0], flat, x.flatten(0, 1))
        add(names[1], delta[1:].flatten(0, 1), states[:-1].flatten(0, 1))
        total = flat.sum(0, keepdim=True)
        for name in names[2:]:
            add(name, total, None)
        return back, None, None, *([None] * len(names))
