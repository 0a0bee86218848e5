"""c2/c1 with variance and discrepancy measured instead of bounded, which is not in the paper.

The paper takes σ0 for 2G, which bounds it, and max disc(P_m, P_m') for B, which bounds it too. Both
can be measured. With D, d, N and T as in the paper's estimate,

    c2/c1 = 2·(disc + √(d/N)) / (σ0·(D + 2/√T)·√(M − M_hist)),

which is the paper's definition but for √(1 + log(N/VC)) ≈ 1 and 4·VC ≈ d, its own approximations:
the definition asks for more samples than the VC dimension, and none of its networks has so many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import nn

from headwater.errors import InputError
from headwater.learning.estimation.client import Mean, Settings, judge, measure_locally
from headwater.learning.estimation.participants import Participants
from headwater.learning.estimation.ratio import Estimate, paper_estimate
from headwater.learning.federation import Client, Federation
from headwater.learning.losses import Loss, cross_entropy
from headwater.learning.problem import gradients_on
from headwater.learning.settings import whole
from headwater.planner.slack import slack
from headwater.randomness import Floats, Purpose, key

_REPETITIONS = 400


@dataclass(frozen=True)
class Uncertain:
    """A measured number and its standard error."""

    value: float
    error: float

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of a number that cannot be negative.

        >>> Uncertain(1.0, 1.0).interval
        (0.0, 2.96)
        """
        return max(0.0, self.value - 1.96 * self.error), self.value + 1.96 * self.error


@dataclass(frozen=True)
class Measurement:
    """What was measured, beside the paper's estimate from the same samples.

    Attributes:
        variance_at_start: of a sample's gradient around its client's mean gradient at θ(1); the
            mean over clients.
        variance_after_steps: the same at θ̂_m, where each client's local steps lead.
        discrepancy: max disc(P_m, P_m'), the largest difference between two clients' losses of one
            model, over the models at hand.
        estimate: G, D, B, d and N.
        rounds: T.
    """

    variance_at_start: Uncertain
    variance_after_steps: Uncertain
    discrepancy: Uncertain
    estimate: Estimate
    rounds: int

    @property
    def gradient_variance(self) -> Uncertain:
        """σ0², the larger of the two: its definition takes the largest over all models in reach."""
        return max(self.variance_at_start, self.variance_after_steps, key=lambda found: found.value)

    @property
    def ratio(self) -> Uncertain:
        """c2/c1 from what was measured; its error is that of variance and discrepancy, not of D."""
        paper, deviation = self.estimate, math.sqrt(self.gradient_variance.value)
        reach = (paper.diameter + 2 / math.sqrt(self.rounds)) * slack(paper.fresh_clients)
        if not reach * deviation:
            return Uncertain(math.inf, 0.0)
        price = self.discrepancy.value + math.sqrt(paper.parameters / paper.total_samples)
        value = 2 * price / (deviation * reach)
        variance = self.gradient_variance.error / (2 * self.gradient_variance.value)
        return Uncertain(value, value * math.hypot(self.discrepancy.error / price, variance))


@gradients_on()
def measure(
    model: nn.Module,
    clients: Sequence[Client] | Federation,
    loss: Loss = cross_entropy,
    fraction: float = 0.1,
    seed: int = 0,
    *,
    rounds: int = 100,
    steps: int = 10,
    learning_rate: float = 0.1,
    batch_size: int = 32,
    hypotheses: int = 8,
) -> Measurement:
    """Measure σ0² and the clients' discrepancy on a part of the historical samples, and so c2/c1.

    Every historical client takes a few local steps from θ(1) on one half of its samples, and
    measures on the other half: the variance of its gradients at θ(1) and where it got to, and its
    loss at θ(1) and for the models of a few other clients. So, unlike for the paper's estimate, a
    few models are sent, as in any round of training; of the samples it is again only scalars: a
    mean and its standard error for each. Fresh clients have no samples before round 1; the
    historical ones stand for them.

    σ0² is the mean over clients, where the paper's definition has the largest: a largest of noisy
    numbers is too large, and it is the mean that makes up the variability of the gradients. The
    discrepancy is a largest difference, so noise makes it too large as well; see :func:`spread` for
    how that is taken out. With a single historical client there is nothing to compare: the paper's
    bound B stands in.

    Args:
        model: any module; its parameters are θ(1). It is not changed, and does not drop out.
        clients: clients, or a federation of them.
        loss: (outputs, labels) -> one number per sample.
        fraction: of its samples that each historical client looks at, but at least 10 samples if it
            has them.
        seed: of the run: of its arrivals, and of the choice of samples here.
        rounds: T.
        steps: local gradient steps.
        learning_rate: of these steps.
        batch_size: of these steps.
        hypotheses: how many clients' models all clients are compared on, beside θ(1).

    Returns:
        σ0², the discrepancy and c2/c1, each with its standard error, and the paper's estimate.

    Example:
        >>> from headwater.experiments.tasks.synthetic import Synthetic
        >>> task = Synthetic()
        >>> streams = task.split(0.2, rounds=40, seed=0).final
        >>> found = measure(task.model(seed=0), streams, rounds=40)
        >>> found.ratio.value > 0, found.ratio.interval[0] < found.ratio.value
        (True, True)
    """
    whole("hypotheses", hypotheses)
    settings = Settings(fraction, steps, learning_rate, batch_size, seed)
    who = Participants.of(model, clients, loss, rounds, settings)
    paper = paper_estimate(who, settings)
    # Of many clients only some lend their models: each model is judged by all clients.
    every = max(1, -(-len(who.chosen) // hypotheses))
    models, variances = [who.start], []
    for place, (client, samples) in enumerate(who.chosen):
        found = measure_locally(who.problem, who.start, samples, client, settings)
        variances.append(found.variances)
        if place % every == 0:
            models.append(found.parameters)
    start, after = (pooled(each) for each in zip(*variances, strict=True))
    judged = [[judge(who.problem, at, samples) for _, samples in who.chosen] for at in models]
    return Measurement(start, after, discrepancy(judged, paper.loss_bound, seed), paper, rounds)


def pooled(variances: Sequence[Mean]) -> Uncertain:
    """The mean of the clients' variances, each counting by its degrees of freedom.

    Its error is that of clients as a sample of all clients, the fresh ones too, so it holds the
    differences between clients as well as the few samples of each; for a single client it is that
    of its samples.

    >>> pooled([Mean(1.0, 0.3, 11), Mean(4.0, 0.6, 21)])
    Uncertain(value=3.0, error=1.333...)
    """
    weights = np.array([v.samples - 1 for v in variances], np.float64)
    if not weights.sum():
        raise InputError(
            "every historical client looks at one sample or two, so that the variance of gradients "
            "cannot be measured; use a larger fraction, or the paper's estimate"
        )
    weights /= weights.sum()
    values = np.array([v.value for v in variances])
    value, count = float(weights @ values), int((weights > 0).sum())
    if count == 1:
        return Uncertain(value, variances[int(weights.argmax())].error)
    return Uncertain(
        value, math.sqrt(float(np.square(weights * (values - value)).sum()) * count / (count - 1))
    )


def discrepancy(judged: Sequence[Sequence[Mean]], bound: float, seed: int) -> Uncertain:
    """The largest spread of the clients' losses over the models; each model has a row.

    Its standard error is that over repetitions in which every loss is redrawn with its own error.
    """
    if len(judged[0]) < 2:
        return Uncertain(bound, 0.0)
    values = np.array([[m.value for m in row] for row in judged])
    errors = np.array([[m.error for m in row] for row in judged])
    draw = np.random.default_rng(int(key(seed, Purpose.ESTIMATE, 0)))
    again = [
        spread(values + errors * draw.normal(size=values.shape), errors).max()
        for _ in range(_REPETITIONS)
    ]
    return Uncertain(float(spread(values, errors).max()), float(np.std(again)))


def spread(values: Floats, errors: Floats) -> Floats:
    """The range of the clients' losses of each model (a row), without what their errors add to it.

    The variance between the measured losses is that between the true ones plus the mean squared
    error. The range is reduced as the deviation is when the second is taken out. For two clients
    that is √(difference² − errors²), whose square is an unbiased estimate of the squared
    difference.

    >>> spread(np.array([[1.0, 6.0], [1.0, 1.1]]), np.array([[0.0, 3.0], [0.2, 0.2]]))
    array([4., 0.])
    """
    variance = values.var(axis=1, ddof=1)
    noise = np.square(errors).mean(axis=1)
    share = np.divide(
        variance - noise, variance, where=variance > noise, out=np.zeros_like(variance)
    )
    return np.asarray(np.ptp(values, axis=1) * np.sqrt(share))
