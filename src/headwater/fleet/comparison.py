"""The strategies side by side, before any training: what the bound says each costs, and so how they
should rank.

All in the paper's unit c1. A group of k equal clients with importance P together is one client with
k times the samples and a k-th of the noise: Σ v p² = v·P²/k and Σ p²/N_m = P²/(k·N_m). So the work
grows with the kinds of clients, not with the clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headwater.errors import InputError
from headwater.fleet.outlook import Outlook
from headwater.planner import Constants, bound_terms, effective_samples, minimise
from headwater.randomness import Floats

Bound = Literal["paper", "sharp"]
_ALIKE = 1e-9  # relative differences of the bound that are rounding


@dataclass(frozen=True)
class Prospect:
    """A strategy and what it is predicted to cost.

    Attributes:
        strategy: its name.
        importance: of each row of the outlook, all clients of the row together.
        historical: importance of the historical clients together.
        effective_samples: N_eff.
        noise: the bound's term of gradient noise, over c1.
        size: the bound's term of few effective samples and discrepancy, over c1.
    """

    strategy: str
    importance: Floats
    historical: float
    effective_samples: float
    noise: float
    size: float

    @property
    def total(self) -> float:
        """ψ/c1."""
        return self.noise + self.size


@dataclass(frozen=True)
class Comparison:
    """Strategies in their predicted order, best first."""

    outlook: Outlook
    ratio: float
    bound: Bound
    prospects: Sequence[Prospect]

    def __getitem__(self, strategy: str) -> Prospect:
        return next(p for p in self.prospects if p.strategy == strategy)

    @property
    def best(self) -> Prospect:
        """The optimum of the bound that is compared by."""
        return self[optimal_name(self.bound)]

    @property
    def historical_suffices(self) -> float | None:
        """The ratio c2/c1 up to which the historical clients alone are optimal; None if it is all
        or nobody.

        √(n_hist / Σ_{v>0} 1/v_m), in the paper's case √(n_hist/(M − M_hist)).
        """
        noise, samples = group_noise(self.outlook, self.bound), self.outlook.group_samples
        noisy = noise > 0
        if not noisy.any() or noisy.all():
            return None
        return float(np.sqrt(samples[~noisy].sum() / samples.sum() / (1 / noise[noisy]).sum()))


def optimal_name(bound: Bound) -> str:
    """How the minimiser of a bound is called in tables."""
    return f"Optimal ({bound})"


def group_noise(outlook: Outlook, bound: Bound) -> Floats:
    """The noise of each row at importance one, in units of c1².

    The paper's: 1 for a fresh client. The sharper one: v_m/(M − M_hist), as c1 = σ0·D·√(M − M_hist)
    has a factor that the exact noise does not need.
    """
    if bound == "paper":
        return outlook.fresh / outlook.count
    return outlook.noise / (outlook.count * max(1.0, outlook.fresh_clients))


def compare(outlook: Outlook, ratio: float, bound: Bound = "paper") -> Comparison:
    """Put the strategies that this fleet allows in the order that a bound predicts.

    Args:
        outlook: the fleet.
        ratio: c2/c1 as the paper defines it.
        bound: whose noise counts, the paper's or the sharper one.

    >>> from headwater.fleet.fleet import Fleet, Kind
    >>> old = Kind("old", 400, False, count=25)
    >>> fleet = Fleet.of([old, Kind("new", 1600, True, 16, 16, count=25)])
    >>> comparison = compare(Outlook.of(fleet, rounds=100), ratio=0.15)
    >>> [(p.strategy, round(p.historical, 4), round(p.total, 4)) for p in comparison.prospects[:3]]
    [('Optimal (paper)', 0.4522, 0.2869), ('Optimal (sharp)', 0.2106, 0.3079), ('Uniform', 0.2,
    0.31)]
    """
    if bound not in ("paper", "sharp"):
        raise InputError(f"bound: 'paper' or 'sharp'; got {bound!r}")
    choices: dict[str, Floats] = {
        optimal_name(b): minimise(group_noise(outlook, b), outlook.group_samples, ratio).importance
        for b in (("paper", "sharp") if bound == "paper" else ("sharp", "paper"))
    }
    choices |= {
        name: weight / weight.sum()
        for name, weight in _weights(outlook).items()
        if weight.sum() > 0
    }
    prospects = [_prospect(outlook, name, p, ratio, bound) for name, p in choices.items()]
    return Comparison(outlook, ratio, bound, _in_order(prospects))


def _in_order(prospects: Sequence[Prospect]) -> list[Prospect]:
    """Cheapest first; those that differ by rounding only stay as they are, the optimum before its
    equals."""
    costs = np.array([p.total for p in prospects])
    if not np.isfinite(costs).all():  # an infinite ratio: effective samples are all that counts
        costs = 1 / np.array([p.effective_samples for p in prospects])
    scale = costs.min() or costs.max() or 1.0
    return [prospects[k] for k in np.argsort(np.round(costs / (scale * _ALIKE)), kind="stable")]


def _weights(outlook: Outlook) -> dict[str, Floats]:
    """The strategies that need no ratio: importances that are still to be divided by their sum."""
    samples = outlook.group_samples
    return {
        "Uniform": samples,
        "ByMemory": outlook.count * outlook.memory,
        "Historical": samples * ~outlook.fresh,
        "Fresh": samples * outlook.fresh,
    }


def _prospect(
    outlook: Outlook, name: str, importance: Floats, ratio: float, bound: Bound
) -> Prospect:
    prices = Constants(c0=0.0, c1=1.0, few_samples=1.0, discrepancy=0.0)
    terms = bound_terms(importance, outlook.group_samples, group_noise(outlook, bound), prices)
    return Prospect(
        strategy=name,
        importance=importance,
        historical=float(importance[~outlook.fresh].sum()),
        effective_samples=effective_samples(importance, outlook.group_samples),
        noise=terms.noise,
        size=ratio * terms.few_samples,
    )
