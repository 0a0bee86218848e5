"""The horizon of a run, measured before its first round.

The curvature of a network at its random start is not that which most of the run will meet: within
the first twentieth of its rounds it grows most (docs/remembered.md has the figures). So a pilot of
that length is learned first, in which everybody takes part, and the horizon is measured where it
leads. For linear models the pilot changes little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from torch import nn

from headwater.errors import InputError
from headwater.learning.estimation.curvature import spectrum
from headwater.learning.estimation.measured import Uncertain
from headwater.learning.estimation.participants import still_problem
from headwater.learning.estimation.pilot import pilot
from headwater.learning.federation import Client, Federation
from headwater.learning.losses import Loss, cross_entropy
from headwater.learning.problem import gradients_on
from headwater.ledger.holdings import Counts, Holdings
from headwater.ledger.orders import LocalWork
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
    batch_size: int | None = None,
    pilot_part: float = 0.05,
    samples: int = 1024,
    probes: int = 3,
    steps: int = 20,
) -> Uncertain:
    """Over how many rounds will the model remember what it has learned? τ, where a pilot leads.

    Looks at the samples that are in the memories in the pilot's last round, at most ``samples`` of
    them. The cost is that of the pilot and about ``3 · probes · steps`` passes over these samples.

    Args:
        model: any module; its parameters are θ(1). It is not changed, and does not drop out.
        clients: clients, or a federation of them.
        learning_rate: η of the run; of a schedule, its mean.
        rounds: T.
        local_steps: E.
        loss: (outputs, labels) -> one number per sample.
        seed: of the run: of its arrivals, and of the choice of samples here.
        batch_size: K; None: the whole memory.
        pilot_part: which part of the rounds is learned before the curvature is looked at; 0: it is
            looked at where the model is, as is right for one that has been learned before.
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
    if not 0 <= pilot_part <= 1:
        raise InputError(f"pilot_part: a part of the rounds from 0 to 1; got {pilot_part!r}")
    federation = clients if isinstance(clients, Federation) else Federation.of(clients)
    problem = still_problem(model, federation, loss)
    holdings = federation.holdings(rounds, seed)
    local_work = LocalWork(local_steps, batch_size, seed=seed)
    first_rounds = math.ceil(pilot_part * rounds)
    parameters = pilot(problem, holdings, local_work, learning_rate, first_rounds)
    chosen = _samples_held(holdings, max(1, first_rounds), samples, seed)
    found = spectrum(problem, parameters, chosen, probes, steps, seed)
    return Uncertain(*found.horizon(learning_rate * local_steps, rounds))


def _samples_held(holdings: Holdings, round: int, most: int, seed: int) -> Counts:
    """Numbers of the samples held in a round, or a random choice of ``most`` of them, in order."""
    held = np.flatnonzero(holdings.held(round))
    if len(held) <= most:
        return held
    order = np.argsort(uniform(seed, Purpose.ESTIMATE, held), kind="stable")
    return np.sort(held[order[:most]])
