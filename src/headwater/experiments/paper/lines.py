"""The lines of a table: the paper's strategies, its grid, and what goes beyond it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from headwater.experiments.comparison import Entrant
from headwater.experiments.paper.published import GRID, TABLES
from headwater.experiments.paper.ratios import Ratios
from headwater.ledger.holdings import Holdings
from headwater.ledger.ledger import Ledger
from headwater.ledger.optimal import Optimal
from headwater.ledger.registry import label
from headwater.ledger.remembered import Remembered
from headwater.ledger.strategies import Share, Strategy, Uniform
from headwater.randomness import Floats


@dataclass(frozen=True)
class Definition:
    """What a line is.

    Attributes:
        about: In a few words.
        strategy: Made from the seed's ratios; None where they do not allow it.
        asks: Which ratio it needs: "estimated", "measured", or none.
        usual: Whether it is there unless a user asks for other lines.
    """

    about: str
    strategy: Callable[[Ratios], Strategy | None]
    asks: str = ""
    usual: bool = True


def definitions(dataset: str, historical: float) -> dict[str, Definition]:
    """All lines that can be trained, by name, in the order in which they are trained.

    >>> list(definitions("cifar10", 0.2))[:4]
    ['Uniform', 'Ours', 'Remembered', 'Historical']
    """
    found = {
        "Uniform": Definition("all samples alike", lambda _: Uniform()),
        "Ours": _optimal("the paper's bound, its estimate", "estimated"),
        "Remembered": Definition("what the model can remember", lambda _: Remembered()),
        "Historical": _fixed(1.0),
        "Fresh": _fixed(0.0),
        **{f"Share {share:g}": _fixed(share) for share in (0.5, 0.8, 0.2)},
        "Sharp": _optimal("exact variability, the paper's estimate", "estimated", sharp=True),
        "Measured": _optimal("the paper's bound, measured ratio", "measured"),
        "Quarter": Definition(
            "what is remembered over a quarter of the run", lambda _: Remembered(0.25), usual=False
        ),
        "Sharp, measured": _optimal("exact variability, measured ratio", "measured", sharp=True),
    }
    published = TABLES.get(historical, {}).get(dataset)
    if published:
        given = published.ratio
        about = f"the paper's bound, its printed c2/c1 = {given:g}"
        found["Printed ratio"] = Definition(about, lambda _: optimal(given), usual=False)
    return found


def _fixed(share: float) -> Definition:
    return Definition(f"p_hist = {share:g}", lambda _: Share(share))


def _optimal(about: str, asks: str, *, sharp: bool = False) -> Definition:
    usual = asks == "estimated" and not sharp
    return Definition(about, lambda r: optimal(getattr(r, asks), sharp=sharp), asks, usual)


def optimal(ratio: float | None, *, sharp: bool = False) -> Optimal | None:
    """Optimal for a ratio of four digits: more of them would say more than an estimate knows.

    >>> optimal(0.123456)
    Optimal(ratio=0.1235, bound='paper')
    """
    if ratio is None:
        return None
    return Optimal(_four_digits(ratio), "sharp" if sharp else "paper")


def remembered(strategy: Remembered) -> Remembered:
    """The same for a measured heterogeneity of four digits: machines differ in the last ones.

    >>> remembered(Remembered(0.25, heterogeneity=0.12314133)).heterogeneity
    0.1231
    """
    if strategy.heterogeneity is None:
        return strategy
    return replace(strategy, heterogeneity=_four_digits(strategy.heterogeneity))


def _four_digits(number: float) -> float:
    return float(f"{number:.4g}")


def entrant(strategy: Strategy, about: str, holdings: Holdings) -> Entrant:
    """The strategy itself, or the share of the grid that gives every client the same importance.

    So Uniform is computed once with the share 0.2 where a fifth of the samples is historical, and
    Ours with Historical where the bound says so.
    """
    if isinstance(strategy, Remembered):
        strategy = remembered(strategy)
        if strategy.horizon is None:
            # Every run measures its horizon at its own rate: its importances are not known yet.
            return Entrant("remembered", strategy, about, "horizon measured after a pilot")
    importance = Ledger.weigh(holdings, strategy).importance
    for share in GRID:
        same = Ledger.weigh(holdings, Share(share)).importance
        if np.allclose(importance, same, rtol=1e-6, atol=1e-9):
            strategy, importance = Share(share), same
            break
    name = "quarter" if isinstance(strategy, Remembered) else label(strategy)
    return Entrant(name, strategy, about, _name(importance))


def _name(importance: Floats) -> str:
    """A name for importances, to six digits: machines may differ in the last ones."""
    digits = " ".join(f"{share:.5e}" for share in importance)
    return sha256(digits.encode()).hexdigest()[:16]
