"""The horizon of a run, measured before its first round.

The curvature of a network at its random start is not that which most of the run will meet: within
the first twentieth of its rounds it grows most (docs/remembered.md has the figures). So a pilot of
that length is learned first, in which everybody takes part, and the horizon is measured where it
leads. For linear models the pilot changes little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from headwater.errors import InputError
from headwater.learning.estimation.curvature import Curvature, noise
from headwater.learning.estimation.lanczos import Lanczos
from headwater.learning.estimation.measured import Uncertain
from headwater.learning.estimation.participants import still_problem
from headwater.learning.estimation.pilot import pilot
from headwater.learning.federation import Client, Federation
from headwater.learning.losses import Loss, cross_entropy
from headwater.learning.problem import Problem, gradients_on
from headwater.ledger.checks import is_whole
from headwater.ledger.holdings import Counts, Holdings
from headwater.ledger.orders import LocalWork
from headwater.planner.horizon import Sums
from headwater.randomness import Purpose, uniform

_SETTLED = 0.1
"""How far the two rules may leave τ open, as a part of it."""


@dataclass(frozen=True)
class Look:
    """The samples that one probe looks at.

    Attributes:
        noise: whose gradients' scatter is the noise.
        curvature: whose curvature it meets; others than those.
    """

    noise: Counts
    curvature: Counts


@dataclass(frozen=True)
class Found:
    """What a probe found.

    Attributes:
        sums: half-way between Gauss's and Radau's.
        doubt: τ/T is no farther than this from that of these sums.
    """

    sums: Sums
    doubt: float

    @classmethod
    def between(cls, below: Sums, above: Sums) -> Found:
        """From Gauss's sums, which are too small, and Radau's, which are too large."""
        middle = Sums.mean([below, above])
        least, most = Sums(below.kept, above.drawn).part, Sums(above.kept, below.drawn).part
        return cls(middle, max(middle.part - least, most - middle.part))


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
    samples: int = 256,
    probes: int = 3,
    steps: int = 60,
) -> Uncertain:
    """Over how many rounds will the model remember what it has learned? τ, where a pilot leads.

    Looks at samples that are in the memories in the pilot's last round. The cost is that of the
    pilot, and for each probe of up to ``steps`` products with the curvature of half its samples,
    each about as dear as two to four gradients of them. The more often the steepest direction
    forgets within the run, the more products it takes: for the networks here twenty to forty.

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
        samples: how many a probe looks at, at most; half of them show the noise of gradients, the
            others the curvature. Fewer than three tell nothing: τ is then T, and so is its error.
            Features that few samples have (words, say) want more of them.
        probes: each with signs and samples of its own, whose scatter is the standard error.
        steps: products with the curvature of a probe, at most; what is still open after them adds
            to the error.

    Returns:
        τ in rounds, from 0 to T, with its standard error over the probes. What all of them share
        is not in it: with about as many samples as parameters, or fewer samples than the model has
        directions that matter, τ may be off by half.

    >>> from headwater.experiments.tasks.synthetic import Synthetic
    >>> task = Synthetic()
    >>> streams = task.split(0.2, rounds=40, seed=0).final
    >>> slow = measure_horizon(task.model(seed=0), streams, 0.01, rounds=40, local_steps=5)
    >>> fast = measure_horizon(task.model(seed=0), streams, 0.3, rounds=40, local_steps=5)
    >>> 38 < slow.value < 40, 15 < fast.value < 25
    (True, True)
    """
    if not 0 < learning_rate < np.inf:
        raise InputError(f"learning_rate: a finite number above 0; got {learning_rate!r}")
    if not 0 <= pilot_part <= 1:
        raise InputError(f"pilot_part: a part of the rounds from 0 to 1; got {pilot_part!r}")
    for name, number in {"samples": samples, "probes": probes, "steps": steps}.items():
        if not is_whole(number) or number < 1:
            raise InputError(f"{name}: a whole number from 1; got {number!r}")
    federation = clients if isinstance(clients, Federation) else Federation.of(clients)
    problem = still_problem(model, federation, loss)
    holdings = federation.holdings(rounds, seed)
    local_work = LocalWork(local_steps, batch_size, seed=seed)
    first_rounds = math.ceil(pilot_part * rounds)
    parameters = pilot(problem, holdings, local_work, learning_rate, first_rounds)
    learned = learning_rate * local_steps * rounds
    looks = choose_samples(holdings, max(1, first_rounds), probes, samples, seed)
    starts = (_start(problem, parameters, look, seed, n) for n, look in enumerate(looks))
    found = [settle(start, learned, steps) for start in starts]
    if all(one.sums.drawn == 0 and one.doubt == 0 for one in found):
        raise InputError(
            "loss: it has no curvature in the model's outputs, so that the horizon cannot be "
            "measured (a LogSoftmax at the end of the model belongs into the loss); give it, as in "
            "Remembered(horizon=0.25)"
        )
    return together(found, rounds)


def choose_samples(holdings: Holdings, round: int, probes: int, most: int, seed: int) -> list[Look]:
    """For each probe a random choice of the samples held in a round, in two halves."""
    held = np.flatnonzero(holdings.held(round))
    looks = []
    for number in range(probes):
        # A draw of its own, of which the signs know nothing.
        order = np.argsort(uniform(seed, Purpose.ESTIMATE, number, 1, held), kind="stable")
        chosen = held[order[:most]]
        half = len(chosen) // 2
        looks.append(Look(noise=np.sort(chosen[half:]), curvature=np.sort(chosen[:half])))
    return looks


def _start(problem: Problem, parameters: Tensor, look: Look, seed: int, number: int) -> Lanczos:
    """A probe before its first step."""
    start = noise(problem, parameters, look.noise, seed, number)
    return Lanczos(Curvature(problem, parameters, look.curvature), start)


def settle(lanczos: Lanczos, learned: float, steps: int) -> Found:
    """Step until both rules agree, or no more steps are left."""
    found = Found(Sums(0.0, 0.0), doubt=1.0)  # without any noise nothing is known
    for _ in range(steps):
        if lanczos.ended:
            break
        lanczos.step()
        rules = lanczos.gauss(), lanczos.radau()
        # A first step that meets a negative curvature has no rules, and leaves all unknown.
        if lanczos.complete or len(rules[0][0]) > 0:
            found = Found.between(*(Sums.of(*rule, learned) for rule in rules))
        if found.doubt <= _SETTLED * found.sums.part:
            break
    return found


def together(found: Sequence[Found], rounds: int) -> Uncertain:
    """τ of all probes in rounds, with their scatter and what their rules left open."""
    part = Sums.mean([f.sums for f in found]).part
    # A probe without noise has no weight in the value, and so none in its scatter.
    told = [f.sums.part for f in found if f.sums.drawn > 0] or [part]
    scatter = math.inf
    if len(found) > 1:
        scatter = float(np.std(told, ddof=min(1, len(told) - 1))) / math.sqrt(len(told))
    doubt = float(np.mean([f.doubt for f in found]))
    return Uncertain(rounds * part, rounds * math.hypot(scatter, doubt))
