"""Test, then train: how good the model is on samples that it has never seen, as they arrive.

In round t every sample that arrives is predicted with θ(t), before the round's first gradient step;
the mean over all arrivals so far is the prequential score of a stream (Gama, Sebastião, Rodrigues:
*On evaluating stream learning algorithms*, 2013). No sample has to be kept aside for it, and it
costs one forward pass per arriving sample. What was there before round 1 does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from headwater.learning.algorithm import Record, State
from headwater.learning.metrics import Metric, mean
from headwater.learning.problem import Problem, own_copy
from headwater.ledger.holdings import Counts, Holdings


class Prequential:
    """Tests of the samples that arrive in each round, by the model from before the round."""

    def __init__(self, problem: Problem, holdings: Holdings, metrics: Mapping[str, Metric]) -> None:
        self._problem = problem
        self._model = own_copy(problem.model).eval()
        # A round's mean must be a mean: R² of three samples says nothing.
        means = {name: m.of for name, m in metrics.items() if m.combine is mean}
        self._measured = {"loss": problem.loss, **means}
        streamed = np.flatnonzero(~holdings.historical[holdings.client])
        by_round = np.argsort(holdings.enter[streamed], kind="stable")
        self._samples = streamed[by_round]
        rounds = np.arange(1, holdings.rounds + 2)
        self._edges = np.searchsorted(holdings.enter[self._samples], rounds)

    @property
    def names(self) -> tuple[str, ...]:
        """What is measured: the loss, and the metrics that are means."""
        return tuple(self._measured)

    def arriving(self, round: int) -> Counts:
        """The samples that arrive in a round at clients that have a stream."""
        return self._samples[self._edges[round - 1] : self._edges[round]]

    def test(self, before: State, record: Record) -> Record:
        """The round's record with the scores of its arrivals by the model from before it."""
        samples = self.arriving(record.round)
        if not len(samples):
            return record
        with torch.no_grad():
            self._problem.load(before.parameters, self._model)
            x, y = self._problem.take(self._problem.where(samples))
            output = self._model(x)
            found = {name: _mean(of(output, y)) for name, of in self._measured.items()}
        return replace(record, arrived=len(samples), prequential=found)


def _mean(values: Tensor) -> float:
    return float(values.cpu().double().mean())


def prequential_means(history: Sequence[Record]) -> dict[str, float]:
    """The mean over all arrivals so far, each counting the same.

    >>> rounds = [Record(1, 0.1, 0.5, 1, 1, 0.0, arrived=1, prequential={"loss": 4.0}),
    ...           Record(2, 0.1, 0.5, 1, 1, 0.0, arrived=3, prequential={"loss": 0.0})]
    >>> prequential_means(rounds)
    {'loss': 1.0}
    """
    some = [record for record in history if record.arrived]
    counts = np.array([record.arrived for record in some], np.float64)
    names = some[0].prequential if some else ()
    return {
        name: float(np.average([record.prequential[name] for record in some], weights=counts))
        for name in names
    }
