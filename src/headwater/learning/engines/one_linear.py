"""Is a model one linear layer and nothing else?

Asked of what a model does, not of what it is called: all its parameters are those of one
``nn.Linear``, its forward pass runs no operation besides that layer's product and reshapes, and its
outputs are the layer's. So ``nn.Linear`` itself, one behind ``nn.Flatten`` and a class of the
user's own that squeezes the last dimension away are all found, and one that clamps its outputs is
not, however far the bounds.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwater.learning.engines.operations import Operations
from headwater.learning.problem import Problem

_PRODUCTS = {"aten::addmm", "aten::mm"}
_RESHAPES = {
    "aten::t",
    "aten::view",
    "aten::_unsafe_view",
    "aten::squeeze",
    "aten::unsqueeze",
    "aten::alias",
    "aten::detach",
}
_TRIALS = (1, 2, 5)  # samples of a pass: a model may look at how many there are


def one_linear(problem: Problem) -> str | None:
    """The beginning of the names of the one linear layer's parameters; None: it is another model.

    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    >>> one_linear(Problem(model, torch.zeros(6, 2, 2), torch.zeros(6)))
    '1.'
    >>> clamped = nn.Sequential(nn.Linear(4, 3), nn.Hardtanh(-1e9, 1e9))
    >>> one_linear(Problem(clamped, torch.zeros(6, 4), torch.zeros(6))) is None
    True
    """
    found = [
        (f"{name}." if name else "", module)
        for name, module in problem.model.named_modules()
        if type(module) is nn.Linear
    ]
    if len(found) != 1 or not _all_of(problem, found[0][1]):
        return None
    prefix, layer = found[0]
    alike = all(_behaves_like(layer, problem.model, problem.x[:count]) for count in _TRIALS)
    return prefix if alike else None


def _all_of(problem: Problem, layer: nn.Linear) -> bool:
    """Has the model no parameters but the layer's, all learned, and can the layer take its samples?

    Hooks are a user's own business, and may do anything at any time.
    """
    hooked = any(m._forward_hooks or m._forward_pre_hooks for m in problem.model.modules())
    mine = [id(p) for p in layer.parameters()]
    return (
        not hooked
        and [id(p) for p in problem.model.parameters()] == mine
        and [id(p) for _, p in problem.parameters] == mine
        and problem.x.dtype == layer.weight.dtype
        and problem.x[0].numel() == layer.in_features
    )


def _behaves_like(layer: nn.Linear, model: nn.Module, x: Tensor) -> bool:
    """Does the model do nothing to these samples but what the layer does?"""
    with torch.no_grad(), torch.random.fork_rng(devices=[]), Operations() as seen:
        output = model(x)
    products = [name for name in seen.names if name in _PRODUCTS]
    if len(products) != 1 or not set(seen.names) <= _PRODUCTS | _RESHAPES:
        return False
    with torch.no_grad():
        wanted = functional.linear(x.flatten(1), layer.weight, layer.bias)
    # One logit may come as a column or as a row; anything else keeps its place.
    shapes = [wanted.shape, wanted.shape[:1]] if layer.out_features == 1 else [wanted.shape]
    return output.shape in shapes and torch.allclose(output.reshape(wanted.shape), wanted)
