"""How the recommendation moves when a device gets more memory or a faster stream, or leaves.

Only the sharper bound knows of memories and rates, so it is what scenarios are judged by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headwater.errors import InputError
from headwater.fleet.change import Scenario
from headwater.fleet.comparison import row_noise
from headwater.fleet.fleet import Fleet
from headwater.fleet.outlook import Outlook
from headwater.ledger.drawing import Drawing
from headwater.planner import effective_samples, minimise
from headwater.randomness import Floats

AS_IT_IS = "as it is"


@dataclass(frozen=True)
class Outcome:
    """What the sharper bound recommends and predicts in a scenario.

    Attributes:
        scenario: in the user's words.
        historical: recommended importance of the historical clients together.
        effective_samples: N_eff there.
        total: ψ/c1, c1 being that of the fleet as it is.
        named: recommended importance, now and then, of each row or kind that the scenario names.
    """

    scenario: str
    historical: float
    effective_samples: float
    total: float
    named: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class _Plan:
    """A fleet and the importance that the sharper bound recommends for each of its rows."""

    fleet: Fleet
    outlook: Outlook
    importance: Floats
    total: float

    @classmethod
    def of(cls, fleet: Fleet, ratio: float, now: Outlook) -> _Plan:
        outlook = Outlook.of(fleet, now.rounds, now.drawing)
        # Prices stay those of the fleet as it is: c1 has its number of streams, c2 its samples.
        noise = row_noise(outlook, "sharp", now.fresh_clients)
        price = ratio * float(np.sqrt(now.total / outlook.total))
        best = minimise(noise, outlook.row_drawable, price)
        return cls(fleet, outlook, best.importance, best.value)

    def share(self, name: str) -> float:
        """The importance of a row or a kind; nothing if it is no longer there."""
        try:
            rows = self.fleet.rows(name)
        except InputError:
            return 0.0
        return float(self.importance[rows].sum())


def what_if(
    fleet: Fleet,
    scenarios: Sequence[Scenario],
    ratio: float,
    rounds: int,
    drawing: Drawing | None = None,
) -> list[Outcome]:
    """Judge scenarios by the sharper bound, the fleet as it is first.

    The prices stay what they are: of noise, c1/√(M − M_hist) = σ0·D, and of an effective sample,
    c2·√N, as if c2 were all √(d/N). The part of c2 that comes from discrepancy would stay the same
    when N grows; where it is large, what more samples gain is less than shown.

    Args:
        fleet: as it is.
        scenarios: what might change.
        ratio: c2/c1 of the fleet as it is.
        rounds: T.
        drawing: local steps and batch size; None: a round uses all that is held.

    >>> from headwater.fleet import Device
    >>> fleet = Fleet.of([Device("server", 400, False), Device("sensor", 1600, True, 16, 16)])
    >>> for outcome in what_if(fleet, [Scenario.parse("capacity=4x")], ratio=0.3, rounds=100):
    ...     print(outcome.scenario, round(outcome.historical, 3), round(outcome.total, 3))
    as it is 0.341 0.482
    capacity=4x 0.268 0.396
    """
    outlook = Outlook.of(fleet, rounds, drawing)
    now = _Plan.of(fleet, ratio, outlook)
    outcomes = [_outcome(Scenario(AS_IT_IS, []), now, now)]
    for scenario in scenarios:
        then = _Plan.of(scenario.apply(fleet), ratio, outlook)
        outcomes.append(_outcome(scenario, now, then))
    return outcomes


def _outcome(scenario: Scenario, now: _Plan, then: _Plan) -> Outcome:
    outlook = then.outlook
    return Outcome(
        scenario=scenario.text,
        historical=float(then.importance[~outlook.fresh].sum()),
        effective_samples=effective_samples(then.importance, outlook.row_drawable),
        total=then.total,
        named={name: (now.share(name), then.share(name)) for name in scenario.names},
    )
