"""The strategies side by side, before any training: what the bound says that each will cost.

All in the paper's unit c1. A row of k equal clients with importance P together is one client with k
times the samples and a k-th of the noise: Σ v p² = v·P²/k and Σ p²/N_m = P²/(k·N_m). So the work
grows with the rows and not with the clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Literal

import numpy as np

from headwater.errors import InputError
from headwater.fleet.outlook import Outlook
from headwater.fleet.remembering import Remembering
from headwater.ledger.optimal import Optimal
from headwater.ledger.registry import REGISTRY
from headwater.ledger.remembered import Remembered
from headwater.ledger.remembered_online import RememberedOnline
from headwater.ledger.strategies import ByMemory, Fresh, Historical, Strategy, Uniform
from headwater.planner import Constants, bound_terms, effective_samples, exact_noise, minimise
from headwater.randomness import Floats

Bound = Literal["paper", "sharp"]
OPTIMUM: dict[Bound, str] = {"paper": "optimal", "sharp": "sharp"}
"""The registered name of the strategy that minimises each bound."""

_ALIKE = 1e-9  # relative differences of the bound that are rounding


@dataclass(frozen=True)
class Prospect:
    """A strategy and what it is predicted to cost.

    Attributes:
        strategy: its registered name.
        importance: of each row of the outlook, all clients of the row together.
        historical: importance of the historical clients together.
        effective_samples: N_eff.
        noise: the bound's cost of rounds that differ, over c1.
        few_samples: the bound's cost of few effective samples and of discrepancy, over c1.
        remembered_error: Q, what :class:`headwater.Remembered` minimises, in units of σ0²/(2λ).
    """

    strategy: str
    importance: Floats
    historical: float
    effective_samples: float
    noise: float
    few_samples: float
    remembered_error: float

    @property
    def total(self) -> float:
        """The bound over c1, without what no choice changes."""
        return self.noise + self.few_samples


@dataclass(frozen=True)
class Comparison:
    """Strategies in their predicted order, best first.

    Attributes:
        outlook: the fleet that they are compared for.
        ratio: c2/c1 as the paper defines it.
        bound: whose noise counts.
        remembered: what a model that forgets can remember, for the rule beside the bound's.
        prospects: what each strategy is predicted to cost.
    """

    outlook: Outlook
    ratio: float
    bound: Bound
    remembered: Remembering
    prospects: Sequence[Prospect]

    def __getitem__(self, strategy: str) -> Prospect:
        return next(p for p in self.prospects if p.strategy == strategy)

    def __contains__(self, strategy: str) -> bool:
        return any(p.strategy == strategy for p in self.prospects)

    @property
    def best(self) -> Prospect:
        """The optimum of the bound that is compared by."""
        return self[OPTIMUM[self.bound]]

    @property
    def historical_suffices(self) -> float | None:
        """The ratio c2/c1 up to which clients without noise are best alone; None: all or nobody.

        √(n_hist / Σ_{v>0} 1/v_m), in the paper's case √(n_hist/(M − M_hist)).
        """
        noise, samples = row_noise(self.outlook, self.bound), self.outlook.row_drawable
        noisy = noise > 0
        if not noisy.any() or noisy.all():
            return None
        return float(np.sqrt(samples[~noisy].sum() / samples.sum() / (1 / noise[noisy]).sum()))


def as_bound(text: str) -> Bound:
    """One of the two bounds, by name.

    >>> as_bound("sharp")
    'sharp'
    """
    for bound in OPTIMUM:
        if text == bound:
            return bound
    raise InputError(f"bound: 'paper' or 'sharp'; got {text!r}")


def row_noise(outlook: Outlook, bound: Bound, fresh_clients: float | None = None) -> Floats:
    """The noise of each row at importance one, in units of c1².

    Args:
        outlook: the fleet.
        bound: "paper" takes it for one for each fresh client, "sharp" as it is.
        fresh_clients: M − M_hist of the fleet that c1 belongs to; None: of this one.
    """
    if bound == "paper":
        return outlook.fresh / outlook.count
    known = outlook.fresh_clients if fresh_clients is None else fresh_clients
    return exact_noise(outlook.terms.noise / outlook.count, known)


def compare(
    outlook: Outlook,
    ratio: float,
    bound: Bound = "paper",
    remembered: Remembered | None = None,
) -> Comparison:
    """Put the strategies that this fleet allows in the order that a bound predicts.

    Args:
        outlook: the fleet.
        ratio: c2/c1 as the paper defines it.
        bound: whose noise counts, the paper's or the sharper one.
        remembered: horizon and heterogeneity; None: a quarter of the run, and clients alike.

    >>> from headwater.fleet import Device, Fleet
    >>> old = Device("old", 400, False, count=25)
    >>> fleet = Fleet.of([old, Device("new", 1600, True, 16, 16, count=25)])
    >>> comparison = compare(Outlook.of(fleet, rounds=100), ratio=0.15)
    >>> [(p.strategy, round(p.historical, 4), round(p.total, 4)) for p in comparison.prospects[:3]]
    [('optimal', 0.4522, 0.2869), ('remembered', 0.5536, 0.2895), ('sharp', 0.2106, 0.3079)]
    """
    best = OPTIMUM[as_bound(bound)]
    remembered = remembered or Remembered(horizon=0.25, heterogeneity=0.0)
    strategies = _strategies(ratio, remembered)
    # The optimum comes first, so that among strategies that cost the same it is shown first.
    names = sorted(strategies, key=lambda name: name != best)
    found = Comparison(outlook, ratio, bound, Remembering(remembered, outlook), ())
    prospects = [_prospect(found, name, strategies[name]) for name in names]
    return replace(found, prospects=_in_order([p for p in prospects if p is not None]))


@singledispatch
def row_importance(strategy: Strategy, outlook: Outlook) -> Floats | None:
    """The importance of each row under a strategy; None if it says nothing about this fleet."""
    del strategy, outlook
    return None


@row_importance.register
def _(strategy: Optimal, outlook: Outlook) -> Floats | None:
    noise = row_noise(outlook, strategy.bound)
    ratio = np.inf if strategy.ratio is None else strategy.ratio
    return minimise(noise, outlook.row_drawable, ratio).importance


@row_importance.register
def _(_strategy: Uniform, outlook: Outlook) -> Floats | None:
    return _shares(outlook.row_samples)


@row_importance.register
def _(_strategy: ByMemory, outlook: Outlook) -> Floats | None:
    return _shares(outlook.count * outlook.terms.memory)


@row_importance.register
def _(_strategy: Historical, outlook: Outlook) -> Floats | None:
    return _shares(outlook.row_samples * ~outlook.fresh)


@row_importance.register
def _(_strategy: Fresh, outlook: Outlook) -> Floats | None:
    return _shares(outlook.row_samples * outlook.fresh)


@row_importance.register
def _(strategy: Remembered, outlook: Outlook) -> Floats | None:
    return Remembering(strategy, outlook).importance


@row_importance.register
def _(_strategy: RememberedOnline, _outlook: Outlook) -> Floats | None:
    return None  # it tends to what Remembered is, and has no importances of its own


def _shares(weight: Floats) -> Floats | None:
    total = float(weight.sum())
    return weight / total if total else None


def _strategies(ratio: float, remembered: Remembered) -> dict[str, Strategy]:
    """All strategies that have a name and do not need a number that nobody gave, as share-0.5."""
    found: dict[str, Strategy] = {}
    for name, entry in REGISTRY.items():
        if entry.kind is Remembered:
            found[name] = remembered
        elif not entry.required:
            found[name] = entry.make(ratio if entry.number == "ratio" else None)
    return found


def _prospect(compared: Comparison, name: str, strategy: Strategy) -> Prospect | None:
    outlook = compared.outlook
    importance = row_importance(strategy, outlook)
    if importance is None:
        return None
    prices = Constants(c0=0.0, c1=1.0, few_samples=1.0, discrepancy=0.0)
    noise = row_noise(outlook, compared.bound)
    terms = bound_terms(importance, outlook.row_drawable, noise, prices)
    return Prospect(
        strategy=name,
        importance=importance,
        historical=float(importance[~outlook.fresh].sum()),
        effective_samples=effective_samples(importance, outlook.row_drawable),
        noise=terms.noise,
        few_samples=compared.ratio * terms.few_samples,
        remembered_error=compared.remembered.error(importance),
    )


def _in_order(prospects: Sequence[Prospect]) -> list[Prospect]:
    """Cheapest first; those that differ by rounding only stay in the order that they have."""
    costs = np.array([p.total for p in prospects])
    if not np.isfinite(costs).all():  # an infinite ratio: effective samples are all that counts
        costs = 1 / np.array([p.effective_samples for p in prospects])
    scale = costs.min() or costs.max() or 1.0
    return [prospects[k] for k in np.argsort(np.round(costs / (scale * _ALIKE)), kind="stable")]
