"""Predictions of new samples with the current model."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwater.learning.metrics import PerSample
from headwater.learning.problem import Problem
from headwater.randomness import Floats


class Scorer:
    """Loss and metric of each sample, with a model of its own that others do not touch."""

    def __init__(self, problem: Problem, metric: PerSample) -> None:
        self._problem, self._metric = problem, metric
        self._model = copy.deepcopy(problem.model).eval()

    def load(self, parameters: Tensor) -> None:
        """Use these parameters from now on."""
        self._problem.load(parameters, self._model)

    def __call__(self, x: NDArray[Any], y: NDArray[Any]) -> tuple[Floats, Floats]:
        """One loss and one metric per sample."""
        labels = torch.from_numpy(y)
        with torch.no_grad():
            output = self._model(torch.from_numpy(x).to(self._problem.x.dtype))
            scores = self._problem.loss(output, labels), self._metric(output, labels)
        losses, metrics = (np.asarray(score.double().numpy()) for score in scores)
        return losses, metrics
