"""Adding a gradient straight to where it is wanted.

In SGD a gradient is formed only to be added to something: to the parameters (a local step) or to the sum of the
clients' moves (one fused pass). For a linear layer it need not be formed at all: the matrix product of its
backward pass can end in the target, ``target.addmm_(gᵀ, x)``. That saves writing and reading a matrix as large as
the weights at every step. The other layers' gradients come from autograd and are added afterwards.
"""

from __future__ import annotations

import copy
from collections import Counter
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwater.problem import Problem


class Descent:
    """A model whose parameters are one flat vector, and whose gradients are added to a flat vector.

    Attributes:
        vector: the parameters; write to it to move the model.
        layers: the linear layers whose gradients are never formed, by the name of their weights.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.vector = problem.initial()
        self.model = copy.deepcopy(problem.model)
        self.model.train(problem.model.training)
        own = dict(self.model.named_parameters())
        for name, view in problem.views(self.vector).items():
            own[name].data = view
        self._names = {id(own[name]): name for name, _ in problem.parameters}
        self._targets: dict[str, Tensor] = {}
        self._scale = 0.0
        self.layers: dict[str, nn.Linear] = {}
        self._watch_linear_layers()
        covered = {self._names[id(p)] for layer in self.layers.values() for p in layer.parameters()}
        self._rest = [(name, own[name]) for name, _ in problem.parameters if name not in covered]
        self._goal: Tensor | None = None

    def add_gradient(self, x: Tensor, y: Tensor, coefficients: Tensor, scale: float, target: Tensor) -> None:
        """target += scale · ∇ Σ_j coefficient_j · ℓ(θ; z_j); the target may be the parameters themselves."""
        self._aim(target, scale)
        losses = self.problem.loss(self.model(x), y)
        losses.backward(coefficients.to(losses.dtype))
        gradients = [(self._targets[n], p.grad) for n, p in self._rest if p.grad is not None]
        if gradients:
            torch._foreach_add_([t for t, _ in gradients], [g for _, g in gradients], alpha=scale)
        for _, p in self._rest:
            p.grad = None

    @property
    def linear(self) -> bool:
        """Are all parameters those of such layers?"""
        return not self._rest

    def _aim(self, target: Tensor, scale: float) -> None:
        self._scale = scale
        if target is not self._goal:
            self._goal, self._targets = target, self.problem.views(target)

    def _watch_linear_layers(self) -> None:
        """Redirect the linear layers for which that is safe: used once a pass, weights used nowhere else."""
        owners = Counter(id(p) for m in self.model.modules() for p in m.parameters(recurse=False))
        layers = [m for m in self.model.modules() if type(m) is nn.Linear and self._own_parameters(m, owners)]
        calls = self._calls(layers)
        for layer in layers:
            if calls[id(layer)] == 1:
                self._redirect(layer)
        self._unwatch_shared(layers)

    def _own_parameters(self, layer: nn.Linear, owners: Counter[int]) -> bool:
        mine = list(layer.parameters(recurse=False))
        hooked = layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks
        return all(id(p) in self._names and owners[id(p)] == 1 for p in mine) and not hooked

    def _calls(self, layers: list[nn.Linear]) -> dict[int, int]:
        calls = {id(layer): 0 for layer in layers}

        def count(layer: nn.Module, *_: Any) -> None:
            calls[id(layer)] += 1

        hooks = [layer.register_forward_hook(count) for layer in layers]
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            self.model(self.problem.x[:1])
        for hook in hooks:
            hook.remove()
        return calls

    def _redirect(self, layer: nn.Linear) -> None:
        weight = self._names[id(layer.weight)]
        bias = None if layer.bias is None else self._names[id(layer.bias)]
        self.layers[weight] = layer

        def forward(module: nn.Linear, x: Tensor) -> Tensor:
            return _Linear.apply(x, module.weight, module.bias, self, weight, bias)  # type: ignore[no-untyped-call]

        layer.forward = MethodType(forward, layer)  # type: ignore[method-assign]

    def _unwatch_shared(self, layers: list[nn.Linear]) -> None:
        """A weight that still gets a gradient from autograd is used elsewhere too: leave its layer alone."""
        self._rest, self._goal = [], None
        with torch.random.fork_rng(devices=[]):
            spare = torch.zeros_like(self.vector)
            self.add_gradient(self.problem.x[:1], self.problem.y[:1], torch.zeros(1), 0.0, spare)
        for layer in layers:
            if any(p.grad is not None for p in layer.parameters(recurse=False)) and "forward" in vars(layer):
                del layer.forward
                del self.layers[self._names[id(layer.weight)]]
        for p in self.model.parameters():
            p.grad = None


class _Linear(torch.autograd.Function):
    """A linear layer whose backward pass ends in the target instead of in a gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        descent: Descent,
        name: str,
        bias_name: str | None,
    ) -> Tensor:
        ctx.x, ctx.weight, ctx.descent, ctx.names = x, weight.detach(), descent, (name, bias_name)
        return functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        before = g @ ctx.weight if ctx.needs_input_grad[0] else None  # first: the target may be the weight itself
        descent: Descent = ctx.descent
        weight, bias = ctx.names
        flat, x = g.reshape(-1, g.shape[-1]), ctx.x.reshape(-1, ctx.x.shape[-1])
        descent._targets[weight].addmm_(flat.T, x, alpha=descent._scale)
        if bias is not None:
            descent._targets[bias].add_(flat.sum(0), alpha=descent._scale)
        return before, None, None, None, None, None
