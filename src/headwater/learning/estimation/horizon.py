"""The horizon of a run, measured before its first round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import nn

from headwater.errors import InputError
from headwater.learning.estimation.curvature import spectrum
from headwater.learning.estimation.measured import Uncertain
from headwater.learning.estimation.participants import still_problem
from headwater.learning.federation import Client, Federation
from headwater.learning.losses import Loss, cross_entropy
from headwater.learning.problem import gradients_on
from headwater.ledger.holdings import Counts, Holdings
from headwater.randomness import Purpose, uniform


@gradients_on()
def measure_horizon(
    model: nn.Module,
    clients: Sequence[Client] | Federation,
    learning_rate: float,
    rounds: int,
    local_steps: int = 1,
    loss: Loss = cross_entropy,
    seed: int = 0,
    *,
    samples: int = 1024,
    probes: int = 3,
    steps: int = 20,
) -> Uncertain:
    """Over how many rounds will the model remember what it has learned? τ, at the initial model.

    Looks at the samples that are in the memories in the first round, at most ``samples`` of them.
    The cost is about ``3 · probes · steps`` passes over these, whatever the length of the run.

    Args:
        model: any module; its parameters are θ(1). It is not changed, and does not drop out.
        clients: clients, or a federation of them.
        learning_rate: η of the run; of a schedule, its mean.
        rounds: T.
        local_steps: E.
        loss: (outputs, labels) -> one number per sample.
        seed: of the run: of its arrivals, and of the choice of samples here.
        samples: how many to look at.
        probes: random starts, whose scatter is the standard error.
        steps: products with the curvature per start.

    Returns:
        τ in rounds, from 0 to T, with its standard error over the probes.

    >>> from headwater.experiments.tasks.synthetic import Synthetic
    >>> task = Synthetic()
    >>> streams = task.split(0.2, rounds=40, seed=0).final
    >>> slow = measure_horizon(task.model(seed=0), streams, 0.01, rounds=40, local_steps=5)
    >>> fast = measure_horizon(task.model(seed=0), streams, 0.3, rounds=40, local_steps=5)
    >>> 38 < slow.value < 40, 8 < fast.value < 20
    (True, True)
    """
    if not 0 < learning_rate < np.inf:
        raise InputError(f"learning_rate: a finite number above 0; got {learning_rate!r}")
    federation = clients if isinstance(clients, Federation) else Federation.of(clients)
    problem = still_problem(model, federation, loss)
    chosen = _first_samples(federation.holdings(rounds, seed), samples, seed)
    found = spectrum(problem, problem.initial(), chosen, probes, steps, seed)
    return Uncertain(*found.horizon(learning_rate * local_steps, rounds))


def _first_samples(holdings: Holdings, most: int, seed: int) -> Counts:
    """Numbers of the samples held in round 1, or a random choice of ``most`` of them, in order."""
    held = np.flatnonzero(holdings.held(1))
    if len(held) <= most:
        return held
    order = np.argsort(uniform(seed, Purpose.ESTIMATE, held), kind="stable")
    return np.sort(held[order[:most]])
