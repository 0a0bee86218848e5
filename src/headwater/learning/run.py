"""A finished run: the models, the ledger, and one record per round."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property

from torch import nn

from headwater.learning.algorithm import Record, State
from headwater.learning.evaluation import Score
from headwater.learning.problem import Problem
from headwater.ledger.ledger import Ledger
from headwater.ledger.strategies import Strategy


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        strategy: how much each sample counted; an ``Optimal()`` with the ratio that was estimated.
        ledger: who held what, with what weight; ``ledger.drawn`` counts what the run's local steps,
            batch size and participation draw of it.
        history: one record per round.
        state: the end of the learning.
        problem: what was learned from what.
        score: the last test, with one number per client; None: there was none.
    """

    strategy: Strategy
    ledger: Ledger
    history: list[Record]
    state: State
    problem: Problem
    score: Score | None = None

    @cached_property
    def model(self) -> nn.Module:
        """The model with the last iterate θ(T+1)."""
        return self.problem.load(self.state.parameters, copy.deepcopy(self.problem.model))

    @cached_property
    def average(self) -> nn.Module:
        """The model with Algorithm 1's output, the q-weighted average θ̄."""
        return self.problem.load(self.state.average, copy.deepcopy(self.problem.model))
