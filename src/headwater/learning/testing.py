"""Tests of the model while it learns: on which samples, by which metrics, in which rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from headwater.errors import InputError
from headwater.learning.algorithm import Record
from headwater.learning.arrays import of_precision
from headwater.learning.assumptions import check_answers
from headwater.learning.evaluation import Score, evaluate
from headwater.learning.federation import Part
from headwater.learning.metrics import Metric, PerSample, named_metrics
from headwater.learning.problem import Problem, own_copy, precision_of
from headwater.learning.settings import whole

_TIMES = 20  # tests in a run, unless told otherwise
_FEW = 3  # samples that metrics are tried on


@dataclass(frozen=True)
class Tests:
    """What the model is tested on, and when.

    Attributes:
        part: the clients' test samples, in the model's precision; None: no tests.
        metrics: what is measured beside the loss.
        every: the number of rounds between two tests; 0: never.
        last: the last round, after which there is always a test.
    """

    part: Part | None
    metrics: Mapping[str, Metric]
    every: int
    last: int

    @classmethod
    def of(
        cls,
        part: Part | None,
        problem: Problem,
        metrics: Mapping[str, PerSample | Metric] | None,
        every: int | None,
        rounds: int,
    ) -> Tests:
        """Tests of a problem's model; refuses samples and metrics that would fail later."""
        measured = named_metrics(metrics, problem.loss)
        interval = max(1, rounds // _TIMES) if every is None else _test_every(every)
        if part is None:
            return cls(None, measured, interval, rounds)
        # Once, and not in every test.
        kind = precision_of(problem.model)
        x, y = of_precision(part.x, kind, "test x"), of_precision(part.y, kind, "test y")
        tests = cls(replace(part, x=x, y=y), measured, interval, rounds)
        tests.check(problem)
        return tests

    def due(self, round: int) -> bool:
        """Is there a test after this round?"""
        wanted = self.part is not None and self.every > 0
        return wanted and (round % self.every == 0 or round == self.last)

    def score(self, model: nn.Module, problem: Problem) -> Score:
        """Loss and metrics of each client."""
        assert self.part is not None
        return evaluate(model, self.part, problem.loss, self.metrics)

    def check(self, problem: Problem) -> None:
        """Try the first test samples, and look at all test labels."""
        assert self.part is not None
        x, y = (values[:_FEW].to(problem.device) for values in (self.part.x, self.part.y))
        few = Part(x, y, np.array([0, len(x)]))
        trial = replace(problem, model=own_copy(problem.model).eval())
        with torch.no_grad():
            output = check_answers(trial, x, self.part.y, "the test labels' range")
        for name, metric in self.metrics.items():
            try:
                evaluate(trial.model, few, problem.loss, {name: metric})
            except InputError:
                raise
            except Exception as error:
                raise InputError(
                    f"metrics[{name!r}] fails on outputs {tuple(output.shape)} and labels "
                    f"{tuple(few.y.shape)} {few.y.dtype} ({error})"
                ) from error


def with_score(record: Record, score: Score) -> Record:
    """A round's record with what its test gave."""
    names = [name for name in score.values if name != "loss"]
    worst = {name: score.worst(name) for name in ("loss", *names)}
    return replace(
        record,
        loss=score.mean("loss"),
        metrics={name: score.mean(name) for name in names},
        worst={name: value for name, value in worst.items() if value is not None},
        failed=len(score.failed_clients),
    )


def _test_every(given: object) -> int:
    return whole("test_every", given, 0, "rounds between two tests, 0 for never")
