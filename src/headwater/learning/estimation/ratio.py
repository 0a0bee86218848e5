"""The paper's estimate of c2/c1 (its appendix, "Details on the Estimation of the c2/c1")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import nn

from headwater.learning.estimation.client import Report, Settings, report
from headwater.learning.estimation.participants import Participants
from headwater.learning.federation import Client, Federation
from headwater.learning.losses import Loss, cross_entropy
from headwater.learning.problem import gradients_on
from headwater.planner import Constants


@dataclass(frozen=True)
class Estimate:
    """What the paper's approximation of c2/c1 is made of.

    Attributes:
        gradient_norm: G, the mean norm of a sample's gradient at θ(1).
        diameter: D, how far the client that goes farthest gets from θ(1) in a few local steps.
        loss_bound: B, the mean loss at θ(1).
        parameters: d, of the model.
        total_samples: N, of all clients in the whole run.
        fresh_clients: M − M_hist.
    """

    gradient_norm: float
    diameter: float
    loss_bound: float
    parameters: int
    total_samples: int
    fresh_clients: int

    @property
    def constants(self) -> Constants:
        """The bound's prices: c1 ≈ 2GD·√(M − M_hist), c2' ≈ 2·√(d/N), disc ≈ B."""
        return Constants.approximate(
            loss_bound=self.loss_bound,
            gradient_norm=self.gradient_norm,
            diameter=self.diameter,
            parameters=self.parameters,
            total_samples=self.total_samples,
            fresh_clients=self.fresh_clients,
        )

    @property
    def ratio(self) -> float:
        """c2/c1 ≈ (B + √(d/N)) / (G·D·√(M − M_hist)); infinite if no client is fresh.

        >>> round(Estimate(5.5, 1.0, 2.3, 3_353_034, 50_000, 25).ratio, 3)
        0.381
        """
        return self.constants.ratio


@gradients_on()
def estimate(
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
) -> Estimate:
    """Estimate c2/c1 as the paper does: G, D and B from a part of the historical clients' samples.

    Every historical client looks at some of its own samples and sends three scalars: the mean loss
    and the mean gradient norm at θ(1), and the distance that a few steps of SGD cover. Only these
    are combined: B and G are means over all samples looked at, D is the largest distance. The paper
    does not say how it took G and B; its printed values for CIFAR are those of means (B = 2.3 = log
    10, G = 5.5; the largest norm there is near 10).

    This is the paper's own approximation: σ0 is taken for 2G, the discrepancy for B and the VC
    dimension for d/4. :func:`headwater.measure` measures σ0 and the discrepancy instead.

    Args:
        model: any module; its parameters are θ(1). It is not changed, and does not drop out.
        clients: clients, or a federation of them.
        loss: (outputs, labels) -> one number per sample.
        fraction: of its samples that each historical client looks at, but at least 10 samples if it
            has them.
        seed: of the run: of its arrivals, and of the choice of samples here.
        rounds: T, which decides who is historical and how many samples arrive.
        steps: local gradient steps for D.
        learning_rate: of these steps.
        batch_size: of these steps.

    Returns:
        G, D, B, d, N and, as ``ratio``, c2/c1.

    >>> from headwater.experiments.tasks.synthetic import Synthetic
    >>> task = Synthetic()
    >>> found = estimate(task.model(seed=0), task.split(0.2, rounds=40, seed=0).final, rounds=40)
    >>> round(found.gradient_norm, 1), round(found.loss_bound, 1)
    (1.4, 0.7)
    >>> found.parameters, found.total_samples
    (21, 200)
    """
    settings = Settings(fraction, steps, learning_rate, batch_size, seed)
    return paper_estimate(Participants.of(model, clients, loss, rounds, settings), settings)


def paper_estimate(who: Participants, settings: Settings) -> Estimate:
    """Let every participant report and combine the reports."""
    reports = [
        report(who.problem, who.start, samples, client, settings) for client, samples in who.chosen
    ]
    return combine(reports, who.problem.size, who.total_samples, who.fresh_clients)


def combine(
    reports: Sequence[Report], parameters: int, total_samples: int, fresh_clients: int
) -> Estimate:
    """Put the clients' scalars together; all that a server has to do.

    >>> from headwater.learning.estimation.client import Mean
    >>> combine([Report(Mean(0.5, 0.1, 10), Mean(1.0, 0.1, 10), 2.0),
    ...          Report(Mean(1.1, 0.1, 20), Mean(4.0, 0.1, 20), 0.5)], 21, 200, 1)
    Estimate(gradient_norm=3.0, diameter=2.0, loss_bound=0.9, parameters=21, total_samples=200,
    fresh_clients=1)
    """
    # Means over all samples that were looked at, so a client counts by how many those were.
    weights = np.array([r.loss.samples for r in reports], np.float64)

    def mean(values: list[float]) -> float:
        return float(np.average(values, weights=weights))

    return Estimate(
        gradient_norm=mean([r.gradient_norm.value for r in reports]),
        diameter=max(r.distance for r in reports),
        loss_bound=mean([r.loss.value for r in reports]),
        parameters=parameters,
        total_samples=total_samples,
        fresh_clients=fresh_clients,
    )
