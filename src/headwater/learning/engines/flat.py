"""A model whose parameters are one flat vector."""

from __future__ import annotations

import copy

from torch import Tensor, nn

from headwater.learning.problem import Problem


class FlatModel:
    """A copy of a problem's model whose learned parameters are views of one flat vector.

    Attributes:
        vector: the parameters; write to it to move the model.
        model: the copy. What is not learned it shares with the original.
        parameters: the learned parameters of the copy, by name.

    >>> import torch
    >>> flat = FlatModel(Problem(nn.Linear(2, 1), torch.zeros(1, 2), torch.zeros(1)))
    >>> flat.vector.copy_(torch.tensor([1.0, 2.0, 3.0]))
    tensor([1., 2., 3.])
    >>> flat.model(torch.ones(1, 2)).item()
    6.0
    """

    def __init__(self, problem: Problem) -> None:
        self.vector: Tensor = problem.initial().clone()
        # .data: redirected layers write to the vector during a backward pass. That is right, they
        # have taken what they need from it before, but autograd would not know and complain.
        views = problem.views(self.vector)
        self.parameters = {name: nn.Parameter(view.data) for name, view in views.items()}
        # A deep copy takes from the memo what it finds there: the views instead of the parameters,
        # so that nothing as large as the model is copied besides the vector.
        memo: dict[int, object] = {id(p): p for p in problem.model.parameters()}
        memo |= {id(p): self.parameters[name] for name, p in problem.parameters}
        self.model: nn.Module = copy.deepcopy(problem.model, memo)
