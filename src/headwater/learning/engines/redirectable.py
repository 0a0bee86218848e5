"""Which layers of a model may be redirected.

A layer's gradient need not be formed where everything that uses its weights goes through the layer
itself, exactly once in a pass. That is tried, not guessed: what a model does with its layers stands
in its code, which we cannot read, and shows when it runs.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import nn

from headwater.learning.engines import recurrent
from headwater.learning.engines.flat import FlatModel
from headwater.learning.engines.redirect import Layers, redirected
from headwater.learning.problem import Problem

_WORTH_IT = 100_000
"""Weights of a linear layer; below, calling Python costs more than forming the gradient."""


def redirectable(flat: FlatModel, problem: Problem, least: int | None = None) -> Layers:
    """The layers whose gradients need not be formed, by the beginning of their parameters' names.

    Args:
        flat: the model.
        problem: its samples, a few of which are tried.
        least: leave out linear layers with fewer weights; None: those not worth the trouble.
    """
    layers = _candidates(flat, _WORTH_IT if least is None else least)
    layers = _called_once(layers, flat.model, problem)
    return _used_nowhere_else(layers, flat, problem)


def _candidates(flat: FlatModel, least: int) -> Layers:
    """Layers of known kinds, all of whose parameters are learned and in no other module."""
    modules = dict(flat.model.named_modules())
    owners = Counter(id(p) for m in modules.values() for p in m.parameters(recurse=False))
    learned = {id(p) for p in flat.parameters.values()}
    return {
        f"{name}." if name else "": module
        for name, module in modules.items()
        if _known(module, least)
        and not _changed(module)
        and all(id(p) in learned and owners[id(p)] == 1 for p in module.parameters())
    }


def _known(module: nn.Module, least: int) -> bool:
    if type(module) is nn.Linear:
        return module.weight.numel() >= least
    return type(module) is nn.RNN and recurrent.handles(module)


def _changed(module: nn.Module) -> bool:
    """Has somebody given this very module hooks, or a forward pass of its own?"""
    hooks = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks
    return any(hooks) or "forward" in vars(module)


def _called_once(layers: Layers, model: nn.Module, problem: Problem) -> Layers:
    calls: Counter[int] = Counter()

    def count(layer: nn.Module, *_: Any) -> None:
        calls[id(layer)] += 1

    hooks = [layer.register_forward_hook(count) for layer in layers.values()]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        model(problem.x[:1])
    for hook in hooks:
        hook.remove()
    return {prefix: layer for prefix, layer in layers.items() if calls[id(layer)] == 1}


def _used_nowhere_else(layers: Layers, flat: FlatModel, problem: Problem) -> Layers:
    """Those whose weights get no gradient from autograd once the layers are redirected."""
    with redirected(layers, lambda *_: None), torch.random.fork_rng(devices=[]):
        problem.loss(flat.model(problem.x[:1]), problem.y[:1]).sum().backward()
    found = {
        prefix: layer
        for prefix, layer in layers.items()
        if all(p.grad is None for p in layer.parameters())
    }
    for p in flat.parameters.values():
        p.grad = None
    return found
