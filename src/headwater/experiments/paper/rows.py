"""The lines of a table: the paper's strategies, its grid, and what goes beyond it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from headwater.experiments.paper.estimates import Ratios
from headwater.experiments.paper.published import GRID, TABLES
from headwater.ledger.holdings import Holdings
from headwater.ledger.ledger import Ledger
from headwater.ledger.optimal import Optimal
from headwater.ledger.strategies import Share, Strategy, Uniform

OPTIMAL = "Optimal"
"""The best of the grid by test accuracy: a line made of other lines."""


@dataclass(frozen=True)
class Choice:
    """A strategy and the name under which its cells are stored; equal names mean equal cells."""

    label: str
    strategy: Strategy


@dataclass(frozen=True)
class Line:
    """One line of the table.

    Attributes:
        about: what it is, in a few words.
        strategy: made from the seed's estimates; None where they do not allow it.
    """

    about: str
    strategy: Callable[[Ratios], Strategy | None]


def lines(dataset: str, historical: float) -> dict[str, Line]:
    """All lines that are trained, by name, in the order of their importance.

    >>> list(lines("cifar10", 0.2))[:4]
    ['Uniform', 'Ours', 'Historical', 'Fresh']
    """
    published = TABLES.get(historical, {}).get(dataset)
    found = {
        "Uniform": Line("all samples alike", lambda _: Uniform()),
        "Ours": Line("the paper's bound, its estimate", lambda r: optimal(r.estimated)),
        "Historical": Line("p_hist = 1", lambda _: Share(1.0)),
        "Fresh": Line("p_hist = 0", lambda _: Share(0.0)),
        **{f"Share {share:g}": _fixed(share) for share in (0.5, 0.8, 0.2)},
        "Sharp": Line(
            "exact variability, the paper's estimate", lambda r: optimal(r.estimated, sharp=True)
        ),
        "Measured": Line("the paper's bound, measured ratio", lambda r: optimal(r.measured)),
        "Sharp, measured": Line(
            "exact variability, measured ratio", lambda r: optimal(r.measured, sharp=True)
        ),
    }
    if published:
        given = published.ratio
        found["Printed ratio"] = Line(
            f"the paper's bound, its printed c2/c1 = {given:g}", lambda _: optimal(given)
        )
    return found


def _fixed(share: float) -> Line:
    return Line(f"p_hist = {share:g}", lambda _: Share(share))


def optimal(ratio: float | None, *, sharp: bool = False) -> Optimal | None:
    """Optimal for a ratio of four digits: what is stored under a name is what the name says.

    >>> optimal(0.123456)
    Optimal(ratio=0.1235, bound='paper')
    """
    if ratio is None:
        return None
    return Optimal(float(f"{ratio:.4g}"), "sharp" if sharp else "paper")


def choose(strategy: Strategy, holdings: Holdings) -> Choice:
    """The strategy itself, or the share of the grid that gives every client the same importance.

    So Uniform is computed once with the share 0.2 where a fifth of the samples is historical, and
    Ours with Historical where the bound says so.
    """
    importance = Ledger.weigh(holdings, strategy).importance
    for share in GRID:
        same = Ledger.weigh(holdings, Share(share)).importance
        if np.allclose(importance, same, rtol=1e-6, atol=1e-9):
            return Choice(f"share-{share:g}", Share(share))
    return Choice(_label(strategy), strategy)


def _label(strategy: Strategy) -> str:
    if isinstance(strategy, Optimal):
        return f"{'sharp' if strategy.bound == 'sharp' else 'optimal'}-{strategy.ratio:.4g}"
    return type(strategy).__name__.lower()


def grid_lines(present: Mapping[str, object]) -> list[str]:
    """The names of the lines that make up the grid, as far as they are present."""
    return [
        n for n in ("Fresh", "Share 0.2", "Share 0.5", "Share 0.8", "Historical") if n in present
    ]
