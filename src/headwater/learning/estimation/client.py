"""What one historical client does for the estimate, on its own samples.

Everything here is a function of one client's samples and gives a few scalars, so it runs where the
samples are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from headwater.errors import InputError
from headwater.learning.engines.loop import gradient
from headwater.learning.estimation.gradients import losses, per_sample
from headwater.learning.problem import Problem
from headwater.learning.settings import number, seed_number, whole
from headwater.ledger.holdings import Counts
from headwater.ledger.orders import without_replacement
from headwater.randomness import Floats, Purpose, uniform

LEAST = 10
"""Samples that a client takes at least, if it has them: a tenth of a small client says nothing."""


@dataclass(frozen=True)
class Settings:
    """How clients look at their samples.

    Attributes:
        fraction: of its samples that a client uses.
        steps: local gradient steps, the paper's "few iterations of stochastic gradient descent".
        learning_rate: of these steps.
        batch_size: of these steps.
        seed: of the choice of samples and batches.
    """

    fraction: float = 0.1
    steps: int = 10
    learning_rate: float = 0.1
    batch_size: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        what = "of the historical samples, above 0 and at most 1"
        if not 0 < number("fraction", self.fraction, what) <= 1:
            raise InputError(f"fraction: {what}; got {self.fraction!r}")
        for name in ("steps", "batch_size"):
            whole(name, getattr(self, name))
        if not 0 < number("learning_rate", self.learning_rate) < np.inf:
            raise InputError(f"learning_rate: a finite number above 0; got {self.learning_rate!r}")
        object.__setattr__(self, "seed", seed_number(self.seed))


@dataclass(frozen=True)
class Mean:
    """A mean over a client's samples.

    Attributes:
        value: the mean.
        error: its standard error; 0 for a single sample, of which nothing is known.
        samples: how many.
    """

    value: float
    error: float
    samples: int

    @classmethod
    def of(cls, values: Floats, lost: int = 0) -> Mean:
        """The mean of one value per sample.

        Args:
            values: one per sample.
            lost: degrees of freedom that were spent on what the values are made of.

        >>> Mean.of(np.array([1.0, 3.0]))
        Mean(value=2.0, error=1.0, samples=2)
        >>> Mean.of(np.array([1.0, 3.0]), lost=1)
        Mean(value=4.0, error=2.0, samples=2)
        """
        count = len(values)
        # With as many degrees lost as there are samples nothing is left to estimate from.
        scale = count / (count - lost) if count > lost else 0.0
        spread = float(values.std(ddof=1)) if count > 1 else 0.0
        return cls(scale * float(values.mean()), scale * spread / math.sqrt(count), count)


def random_part(samples: Counts, client: int, settings: Settings) -> Counts:
    """A client's random part of its samples, in random order; it depends on no other client."""
    wanted = min(len(samples), max(LEAST, int(np.ceil(settings.fraction * len(samples)))))
    draws = uniform(settings.seed, Purpose.ESTIMATE, client, np.arange(len(samples)))
    return samples[np.argsort(draws)[:wanted]]


def halves(samples: Counts) -> tuple[Counts, Counts]:
    """The samples to learn from and those to judge by.

    They are kept apart, as a model is better on what it has learned from.

    >>> halves(np.arange(5)), halves(np.arange(1))
    ((array([0, 2, 4]), array([1, 3])), (array([0]), array([0])))
    """
    return samples[::2], samples[1::2] if len(samples) > 1 else samples


def local_sgd(
    problem: Problem, start: Tensor, samples: Counts, client: int, settings: Settings
) -> Tensor:
    """θ̂_m: where a few local steps of stochastic gradient descent lead."""
    size = min(settings.batch_size, len(samples))
    steps = np.arange(settings.steps)[:, None]
    draws = uniform(settings.seed, Purpose.ESTIMATE, client, steps, np.arange(size))
    picks = without_replacement(np.full(settings.steps, len(samples)), draws)
    rate, equal = settings.learning_rate, np.full(size, 1 / size)
    parameters = start
    for pick in picks:
        parameters = parameters - rate * gradient(problem, parameters, samples[pick], equal)
    if not parameters.isfinite().all():
        raise InputError(
            f"client {client}: {settings.steps} local steps diverged at learning_rate={rate:g}; "
            f"estimate with learning_rate={rate / 10:g}, or give the ratio"
        )
    return parameters


@dataclass(frozen=True)
class Report:
    """The scalars that a client sends for the paper's estimate.

    Attributes:
        loss: ℓ at θ(1).
        gradient_norm: ‖∇ℓ‖ at θ(1), sample by sample.
        distance: ‖θ̂_m − θ(1)‖.
    """

    loss: Mean
    gradient_norm: Mean
    distance: float


def report(
    problem: Problem, start: Tensor, samples: Counts, client: int, settings: Settings
) -> Report:
    """One client's part of the paper's estimate, from samples that it chose."""
    here = per_sample(problem, start, samples)
    there = local_sgd(problem, start, samples, client, settings)
    return Report(Mean.of(here.loss), Mean.of(here.norm), float((there - start).norm()))


@dataclass(frozen=True)
class LocalMeasurement:
    """A client's own model and the variances of its gradients.

    Attributes:
        parameters: θ̂_m, where the client's local steps lead.
        variances: E‖∇ℓ − ∇L_m‖² at θ(1) and at θ̂_m.
    """

    parameters: Tensor
    variances: tuple[Mean, Mean]


def measure_locally(
    problem: Problem, start: Tensor, samples: Counts, client: int, settings: Settings
) -> LocalMeasurement:
    """Learn from one half of the samples, and measure the gradients' variance by the other."""
    learned_from, judged_by = halves(samples)
    parameters = local_sgd(problem, start, learned_from, client, settings)
    at_start, after = (variance(problem, at, judged_by) for at in (start, parameters))
    return LocalMeasurement(parameters, (at_start, after))


def variance(problem: Problem, parameters: Tensor, samples: Counts) -> Mean:
    """A client's E‖∇ℓ − ∇L_m‖² at one θ.

    The mean gradient is that of the same samples, which costs a degree of freedom; with that taken
    into account there is no bias.
    """
    return Mean.of(per_sample(problem, parameters, samples).deviation, lost=1)


def judge(problem: Problem, parameters: Tensor, samples: Counts) -> Mean:
    """A client's L_m at one θ, on the half of its samples that it did not learn from."""
    return Mean.of(losses(problem, parameters, halves(samples)[1]))
