"""Adding a gradient straight to where it is wanted.

In SGD a gradient is formed only to be added to something: to the parameters (a local step) or to
the sum of the clients' moves (one fused pass). For a linear layer it need not be formed at all: the
matrix product of its backward pass can end in the target, ``target.addmm_(gᵀ, x)``. That saves
writing and reading a matrix as large as the weights at every step. The same holds for plain
recurrent layers (:mod:`headwater.learning.engines.recurrent`). The other layers' gradients come
from autograd and are added afterwards.
"""

from __future__ import annotations

import copy
from collections import Counter
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwater.learning.engines import recurrent
from headwater.learning.problem import Problem

_WORTH_IT = (
    100_000  # weights of a linear layer; below, calling Python costs more than forming the gradient
)


class Descent:
    """A model whose parameters are one flat vector, and whose gradients are added to a flat vector.

    Attributes:
        vector: the parameters; write to it to move the model.
        layers: the layers whose gradients are never formed, by the beginning of their parameters'
            names.
    """

    def __init__(self, problem: Problem, worth_it: int | None = None) -> None:
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
        self.layers: dict[str, nn.Module] = {}
        self._watch_layers(_WORTH_IT if worth_it is None else worth_it)
        covered = {self._names[id(p)] for layer in self.layers.values() for p in layer.parameters()}
        self._rest = [(name, own[name]) for name, _ in problem.parameters if name not in covered]
        self._goal: Tensor | None = None

    def add_gradient(
        self, x: Tensor, y: Tensor, coefficients: Tensor, scale: float, target: Tensor
    ) -> None:
        """target += scale · ∇ Σ_j coefficient_j · ℓ(θ; z_j); the target may be the parameters
        themselves."""
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
        """Are all parameters those of linear layers whose gradients are never formed?"""
        return not self._rest and all(type(layer) is nn.Linear for layer in self.layers.values())

    def _aim(self, target: Tensor, scale: float) -> None:
        self._scale = scale
        if target is not self._goal:
            self._goal, self._targets = target, self.problem.views(target)

    def _add(self, name: str, g: Tensor, x: Tensor | None) -> None:
        """What a layer's backward pass calls: gᵀ x, or the sum of g, for the named parameter."""
        if x is None:
            self._targets[name].add_(g.sum(0), alpha=self._scale)
        else:
            self._targets[name].addmm_(g.T, x, alpha=self._scale)

    def _watch_layers(self, worth_it: int) -> None:
        """Redirect the layers for which that is safe: used once a pass, weights used nowhere
        else."""
        owners = Counter(id(p) for m in self.model.modules() for p in m.parameters(recurse=False))
        layers = {
            f"{name}." if name else "": module
            for name, module in self.model.named_modules()
            if _known(module, worth_it) and self._own_parameters(module, owners)
        }
        calls = self._calls(list(layers.values()))
        for prefix, layer in layers.items():
            if calls[id(layer)] == 1:
                self._redirect(layer, prefix)
        self._unwatch_shared()

    def _own_parameters(self, layer: nn.Module, owners: Counter[int]) -> bool:
        mine = list(layer.parameters(recurse=False))
        hooked = layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks
        return all(id(p) in self._names and owners[id(p)] == 1 for p in mine) and not hooked

    def _calls(self, layers: list[nn.Module]) -> dict[int, int]:
        calls = {id(layer): 0 for layer in layers}

        def count(layer: nn.Module, *_: Any) -> None:
            calls[id(layer)] += 1

        hooks = [layer.register_forward_hook(count) for layer in layers]
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            self.model(self.problem.x[:1])
        for hook in hooks:
            hook.remove()
        return calls

    def _redirect(self, layer: nn.Module, prefix: str) -> None:
        self.layers[prefix] = layer
        usual = layer.forward

        def linear(
            module: nn.Linear, input: Tensor
        ) -> Tensor:  # arguments are named as PyTorch names them
            return _Linear.apply(input, module.weight, module.bias, self._add, prefix)  # type: ignore[no-untyped-call]

        def recur(module: nn.RNN, input: Any, hx: Any = None) -> Any:
            if hx is not None or not isinstance(input, Tensor):
                return usual(input, hx)
            return recurrent.forward(module, input, prefix, self._add)

        layer.forward = MethodType(linear if isinstance(layer, nn.Linear) else recur, layer)

    def _unwatch_shared(self) -> None:
        """A weight that still gets a gradient from autograd is used elsewhere too: leave its layer
        alone."""
        self._rest, self._goal = [], None
        with torch.random.fork_rng(devices=[]):
            spare = torch.zeros_like(self.vector)
            self.add_gradient(self.problem.x[:1], self.problem.y[:1], torch.zeros(1), 0.0, spare)
        for prefix, layer in list(self.layers.items()):
            if any(p.grad is not None for p in layer.parameters(recurse=False)):
                del layer.forward, self.layers[prefix]
        for p in self.model.parameters():
            p.grad = None


def _known(module: nn.Module, worth_it: int) -> bool:
    if type(module) is nn.Linear:
        return module.weight.numel() >= worth_it
    return type(module) is nn.RNN and recurrent.handles(module)


class _Linear(torch.autograd.Function):
    """A linear layer whose backward pass ends in the target instead of in a gradient."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, add: recurrent.Add, prefix: str
    ) -> Tensor:
        ctx.x, ctx.weight, ctx.add, ctx.prefix, ctx.biased = (
            x,
            weight.detach(),
            add,
            prefix,
            bias is not None,
        )
        return functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        before = (
            g @ ctx.weight if ctx.needs_input_grad[0] else None
        )  # first: the target may be the weight itself
        flat, x = g.reshape(-1, g.shape[-1]), ctx.x.reshape(-1, ctx.x.shape[-1])
        ctx.add(ctx.prefix + "weight", flat, x)
        if ctx.biased:
            ctx.add(ctx.prefix + "bias", flat, None)
        return before, None, None, None, None
