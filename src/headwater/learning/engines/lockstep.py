"""Several local steps of many clients at once, without a copy of the weights for any of them.

Where a linear layer's input is x and the gradient at its output is g, SGD moves its weights by −η
gᵀx: a matrix of rank one a sample. So after steps on the samples i, a client's layer is

    W_m = W − η Σ_i g_iᵀ x_i,        x W_mᵀ = x Wᵀ − η Σ_i (x · x_i) g_i,

the *shared* weights W and a correction by the client's own past, as small as its batches. The
products with W are taken for all clients together, in one large matrix product, and the clients'
weights are never formed, copied or averaged: Σ_m p_m (W_m − W) = −η Σ_m p_m Σ_i g_iᵀ x_i is one
large product, too.

For models all of whose parameters are those of linear layers. A bias is a feature that is always
one.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from headwater.learning.engines.flat import FlatModel
from headwater.learning.engines.groups import Group, groups
from headwater.learning.engines.products import add_times, times
from headwater.learning.engines.redirect import Layers
from headwater.learning.engines.redirectable import redirectable
from headwater.learning.problem import Problem
from headwater.ledger.orders import Orders

_ROWS = 384
"""Samples of a step that go through the model together: enough for fast products."""
_NUMBERS = 1 << 18
"""Inputs and outputs of all layers in a step; small models take as many samples as that allows."""


class Lockstep:
    """All clients step together; a client is the inputs and gradients of its past steps."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._flat = FlatModel(problem)
        layers = redirectable(self._flat, problem, least=0)
        self._layers = {prefix: _SharedLayer(module) for prefix, module in layers.items()}
        width = sum(sum(layer.weight.shape) for layer in self._layers.values())
        self._rows = max(_ROWS, _NUMBERS // width)

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Are all parameters those of linear layers with a row of features for each sample?"""
        if not _all_in_linear_layers(problem):  # without trying anything
            return False
        flat = FlatModel(problem)
        layers = redirectable(flat, problem, least=0)
        covered = {id(p) for layer in layers.values() for p in layer.parameters()}
        return (
            all(id(p) in covered for p in flat.parameters.values())
            and not problem.draws
            and _a_row_for_each_sample(flat, layers, problem)
        )

    def moves(self, parameters: Tensor, orders: Orders, learning_rate: float) -> Tensor:
        """Σ_m p_m(t) (θ_m(t, E+1) − θ(t)), group by group."""
        self._flat.vector.copy_(parameters)
        total = torch.zeros_like(parameters)
        targets = self.problem.views(total)
        for group in groups(orders, lambda sizes: sizes, self._rows):
            self._take_steps(group, learning_rate)
            shares = self.problem.numbers(group.shares * -learning_rate, total.dtype)
            for prefix, layer in self._layers.items():
                layer.add_moves(shares, targets[prefix + "weight"], targets.get(prefix + "bias"))
        return total

    def _take_steps(self, group: Group, learning_rate: float) -> None:
        clients, batch = group.columns.shape
        steps = len(group.orders.samples)
        for layer in self._layers.values():
            layer.begin(clients, batch * steps, learning_rate)
        for number in range(steps):
            x, y, coefficients = group.step(self.problem, number, self._flat.vector.dtype)
            losses = self.problem.loss(self._flat.model(x), y)
            (losses @ coefficients.to(losses.dtype)).backward()

    def close(self) -> None:
        """Nothing to let go."""


class _SharedLayer:
    """One linear layer at all clients of a group: shared weights, and the past of every client.

    Attributes:
        x, g: inputs and gradients of the past steps, (clients, rows, features); of the rows,
            ``past`` are filled.
    """

    def __init__(self, module: nn.Module) -> None:
        assert isinstance(module, nn.Linear)
        self.weight = module.weight.detach()
        self.bias = None if module.bias is None else module.bias.detach()
        self.x = self.g = self.weight.new_empty(0, 0, 0)
        self.past = 0
        self.rate = 0.0

        def forward(module: nn.Linear, input: Tensor) -> Tensor:
            return _WithPast.apply(input, module.weight, self)  # type: ignore[no-untyped-call]

        module.forward = MethodType(forward, module)  # type: ignore[method-assign]

    def begin(self, clients: int, rows: int, rate: float) -> None:
        """New clients without a past."""
        self.past = 0
        self.rate = rate
        if self.x.shape[:2] != (clients, rows):
            outputs, inputs = self.weight.shape
            self.x = self.weight.new_empty(clients, rows, inputs)
            self.g = self.weight.new_empty(clients, rows, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """x W_mᵀ + b_m, the shared layer's answer less η (x · x_i + 1) g_i for every past i."""
        out = times(x, self.weight, self.bias)
        mine = x.view(len(self.x), -1, x.shape[-1])
        if self.past:
            alike = mine @ self.x[:, : self.past].mT
            if self.bias is not None:
                alike += 1.0
            out.view(len(mine), -1, out.shape[-1]).baddbmm_(
                alike, self.g[:, : self.past], alpha=-self.rate
            )
        self.x[:, self.past : self.past + mine.shape[1]] = mine
        return out

    def backward(self, g: Tensor, *, wanted: bool) -> Tensor | None:
        """g W_m for the layer before, if wanted; the step becomes part of the past."""
        mine = g.view(len(self.g), -1, g.shape[-1])
        now = slice(self.past, self.past + mine.shape[1])
        back = times(g, self.weight.T) if wanted else None
        if back is not None and self.past:
            alike = mine @ self.g[:, : self.past].mT
            back.view(len(mine), -1, back.shape[-1]).baddbmm_(
                alike, self.x[:, : self.past], alpha=-self.rate
            )
        self.g[:, now] = mine
        self.past = now.stop
        return back

    def add_moves(self, scales: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        """weight += Σ_m scale_m Σ_i g_iᵀ x_i, bias += Σ_m scale_m Σ_i g_i.

        Over the past only: of a step in which the model did without this layer, there is none.
        """
        g = self.g[:, : self.past].mul_(scales[:, None, None]).flatten(0, 1)
        add_times(weight, g, self.x[:, : self.past].flatten(0, 1))
        if bias is not None:
            bias.add_(g.sum(0))


class _WithPast(torch.autograd.Function):
    """A linear layer that differs from client to client."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, _weight: Tensor, layer: _SharedLayer) -> Tensor:
        # Autograd asks a function backward only if an input wants a gradient: that is the weight.
        ctx.layer = layer
        return layer.forward(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return ctx.layer.backward(g.contiguous(), wanted=ctx.needs_input_grad[0]), None, None


def _all_in_linear_layers(problem: Problem) -> bool:
    linear = [module for module in problem.model.modules() if type(module) is nn.Linear]
    inside = {id(p) for module in linear for p in module.parameters()}
    return all(id(p) in inside for _, p in problem.parameters)


def _a_row_for_each_sample(flat: FlatModel, layers: Layers, problem: Problem) -> bool:
    shapes: list[tuple[int, ...]] = []

    def note(_: nn.Module, given: tuple[Tensor, ...]) -> None:
        shapes.append(given[0].shape)

    hooks = [layer.register_forward_pre_hook(note) for layer in layers.values()]
    few = problem.x[:3]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        flat.model(few)
    for hook in hooks:
        hook.remove()
    return all(len(shape) == 2 and shape[0] == len(few) for shape in shapes)
