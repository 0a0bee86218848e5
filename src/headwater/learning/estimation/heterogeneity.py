"""How much clients differ: an analysis of variance of per-sample gradients at the initial model.

The gradient of sample i of client m is a common mean, plus what the client is off, plus what the
sample is off. The variance of the last, σ0², is measured within clients; that of the second, σ_b²,
between the clients' means, less what those scatter because they are means of few samples:

    σ0²  = Σ_m Σ_i ‖g_mi − ḡ_m‖² / Σ_m (n_m − 1)
    σ_b² = Σ_m ‖ḡ_m − ḡ‖² / (M − 1)  −  mean of s_m²/n_m,           ḡ the mean of the ḡ_m

where s_m² is the variance within client m alone. Both are unbiased whatever the distributions, and
if some clients' samples scatter more than others'. Their ratio ρ = σ_b²/σ0² is what
:class:`headwater.Remembered` needs. A device would send ḡ_m, the sum of its squares and n_m.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from headwater.errors import InputError
from headwater.learning.estimation.gradients import mean_gradient, per_sample
from headwater.learning.estimation.measured import Uncertain
from headwater.learning.estimation.participants import still_problem
from headwater.learning.federation import Client, Federation
from headwater.learning.losses import Loss, cross_entropy
from headwater.learning.problem import Problem, gradients_on
from headwater.ledger.holdings import Counts, Holdings
from headwater.randomness import Floats, Purpose, uniform


@dataclass(frozen=True)
class Heterogeneity:
    """What the analysis of variance found.

    Attributes:
        within: σ0², the variance (trace) of a sample's gradient around its client's mean.
        between: σ_b², the variance of the clients' means around their common mean; 0 if what was
            measured is no more than the means' own scatter.
        ratio: ρ = σ_b²/σ0² with its standard error, by leaving out one client after the other.
        clients: how many were looked at.
    """

    within: float
    between: float
    ratio: Uncertain
    clients: int


@gradients_on()
def measure_heterogeneity(
    model: nn.Module,
    clients: Sequence[Client] | Federation,
    loss: Loss = cross_entropy,
    seed: int = 0,
    *,
    rounds: int = 100,
    most_clients: int = 60,
    most_samples: int = 40,
) -> Heterogeneity:
    """Measure how much clients differ, on what is in the memories in the first round.

    That is all of the historical clients, and what fresh clients have then.

    Args:
        model: any module; its parameters are θ(1). It is not changed, and does not drop out.
        clients: clients, or a federation of them.
        loss: (outputs, labels) -> one number per sample.
        seed: of the run: of its arrivals, and of the choice of clients and samples here.
        rounds: T.
        most_clients: look at so many clients at most, chosen at random.
        most_samples: look at so many samples of a client at most, chosen at random.

    Returns:
        Both variances and their ratio ρ with its standard error.

    Example:
        >>> from headwater.experiments.tasks.synthetic import Synthetic
        >>> task = Synthetic()
        >>> streams = task.split(0.5, rounds=40, seed=0).final
        >>> found = measure_heterogeneity(task.model(seed=0), streams, rounds=40)
        >>> found.clients, found.ratio.value < 0.1
        (11, True)
    """
    federation = clients if isinstance(clients, Federation) else Federation.of(clients)
    if len(federation) == 1:
        return Heterogeneity(math.nan, 0.0, Uncertain(0.0, 0.0), 1)
    problem = still_problem(model, federation, loss)
    holdings = federation.holdings(rounds, seed)
    if why := too_few(holdings):
        raise InputError(f"{why}; give it, as in Remembered(heterogeneity=0.1)")
    chosen = _chosen(holdings, seed, most_clients, most_samples)
    counts = np.array([len(samples) for samples in chosen])
    return combine(counts, *_squares(problem, problem.initial(), chosen))


def combine(counts: Counts, inner: Floats, outer: Floats) -> Heterogeneity:
    """Put the clients' numbers together.

    Args:
        counts: n_m, at least 2.
        inner: Σ_i ‖g_mi − ḡ_m‖².
        outer: ‖ḡ_m − ḡ‖².

    Example:
        >>> combine(np.array([2, 2]), np.array([1.0, 3.0]), np.array([3.0, 3.0])).between
        5.0
    """
    within, between = _variances(counts, inner, outer.sum())
    ratio = _ratio(within, between)
    return Heterogeneity(
        float(within),
        float(max(between, 0.0)),
        Uncertain(ratio, _error(counts, inner, outer)),
        len(counts),
    )


def _error(counts: Counts, inner: Floats, outer: Floats) -> float:
    """The jackknife's standard error of ρ; infinite for two clients, of whom one tells nothing."""
    many = len(counts)
    if many < 3:
        return math.inf
    left = np.empty(many)
    for m in range(many):
        # Without client m the mean of the means moves, and all distances to it. Their sum of
        # squares is smaller by ‖ḡ_m − ḡ‖²·M/(M − 1), by the theorem of Huygens and Steiner.
        spread = outer.sum() - outer[m] * many / (many - 1)
        left[m] = _ratio(*_variances(np.delete(counts, m), np.delete(inner, m), spread))
    return float(np.sqrt((many - 1) * left.var()))


def _variances(counts: Counts, inner: Floats, outer: float) -> tuple[float, float]:
    """σ0² and σ_b², the latter perhaps below 0."""
    freedom = counts - 1
    own = float((inner / freedom / counts).mean())
    return float(inner.sum() / freedom.sum()), outer / (len(counts) - 1) - own


def _ratio(within: float, between: float) -> float:
    if between <= 0:
        return 0.0
    return float(between / within) if within > 0 else math.inf


def _squares(
    problem: Problem, parameters: Tensor, chosen: Sequence[Counts]
) -> tuple[Floats, Floats]:
    """Σ_i ‖g_mi − ḡ_m‖² and ‖ḡ_m − ḡ‖² of each client.

    Means are computed twice, as so many gradients of a large model do not fit into memory.
    """
    centre = torch.zeros_like(parameters)
    for samples in chosen:
        centre += mean_gradient(problem, parameters, samples) / len(chosen)
    inner = np.empty(len(chosen))
    outer = np.empty(len(chosen))
    for m, samples in enumerate(chosen):
        inner[m] = per_sample(problem, parameters, samples).deviation.sum()
        mean = mean_gradient(problem, parameters, samples)
        outer[m] = float((mean - centre).double().square().sum())
    return inner, outer


def _chosen(holdings: Holdings, seed: int, clients: int, samples: int) -> list[Counts]:
    """Samples held in round 1: of some clients, and of each client some."""
    held = np.flatnonzero(holdings.held(1))
    # In random order, so that the first of a client are a random choice of its samples.
    held = held[np.argsort(uniform(seed, Purpose.ESTIMATE, held), kind="stable")]
    client = holdings.client[held]
    there, counts = np.unique(client, return_counts=True)
    there = there[counts >= 2]  # of a single sample nobody knows how much it scatters
    order = np.argsort(uniform(seed, Purpose.ESTIMATE, 1, there), kind="stable")
    return [held[client == m][:samples] for m in np.sort(there[order[:clients]])]


def too_few(holdings: Holdings) -> str:
    """Why the clients of a run are too few to be measured, or nothing if they are not."""
    held = np.bincount(holdings.client[holdings.held(1)], minlength=holdings.clients)
    many = int((held >= 2).sum())
    if many >= 2 or holdings.clients == 1:
        return ""
    who = "client holds" if many == 1 else "clients hold"
    return (
        f"{many or 'no'} {who} more than one sample in round 1: too few to measure how much "
        "clients differ"
    )
