"""Who takes part in an estimate, and with what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from headwater.errors import InputError
from headwater.learning import assumptions
from headwater.learning.estimation.client import Settings, random_part
from headwater.learning.federation import Client, Federation
from headwater.learning.losses import Loss
from headwater.learning.problem import Problem
from headwater.ledger.holdings import Counts, Holdings


@dataclass(frozen=True)
class Participants:
    """The historical clients, each with the samples it chose.

    Attributes:
        problem: model (not drawing at random), loss and data.
        start: θ(1).
        chosen: client number and sample numbers.
        total_samples: N, of all clients in the whole run.
        fresh_clients: M − M_hist.
        rounds: T.
    """

    problem: Problem
    start: Tensor
    chosen: Sequence[tuple[int, Counts]]
    total_samples: int
    fresh_clients: int
    rounds: int

    @classmethod
    def of(
        cls,
        model: nn.Module,
        clients: Sequence[Client] | Federation,
        loss: Loss,
        rounds: int,
        settings: Settings,
    ) -> Participants:
        """Find the historical clients of a run and let each choose its samples."""
        federation = clients if isinstance(clients, Federation) else Federation.of(clients)
        holdings = federation.holdings(rounds, settings.seed)
        problem = still_problem(model, federation, loss)
        chosen = [
            (m, random_part(_held(holdings, m), m, settings))
            for m in _historical(holdings).tolist()
        ]
        fresh = int((~holdings.historical & (holdings.collected > 0)).sum())
        return cls(problem, problem.initial(), chosen, int(holdings.collected.sum()), fresh, rounds)


def still_problem(model: nn.Module, federation: Federation, loss: Loss) -> Problem:
    """The federation's problem with a copy of the model that does not draw at random."""
    problem = Problem.of(model, federation.train, loss)
    problem.model.eval()
    assumptions.check(problem)
    return problem


def _historical(holdings: Holdings) -> Counts:
    found = np.flatnonzero(holdings.historical)
    if not len(found):
        raise InputError(
            "no client is historical (all samples there before round 1, none dropped later), so "
            "there is nothing to estimate c2/c1 from; give it, as in Optimal(ratio=0.15), or use a "
            "strategy that needs none, such as Uniform()"
        )
    return found


def _held(holdings: Holdings, client: int) -> Counts:
    first, last = holdings.offsets[client], holdings.offsets[client + 1]
    return first + np.flatnonzero(holdings.rounds_held[first:last] > 0)
