"""What was measured before the first round, kept beside the run's state.

A run that goes on takes these numbers and does not measure again. That saves the pilot; and what is
measured depends in its last digits on how it is computed (how many threads add a sum), so measured
again the same strategy would give the samples other weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from headwater.learning.identity import digest
from headwater.ledger.forgetting import Forgetting
from headwater.ledger.optimal import Optimal
from headwater.ledger.remembered import Remembered
from headwater.ledger.strategies import Strategy
from headwater.ledger.target import Target
from headwater.planner.constants import Constants

Numbers = Mapping[str, float | Mapping[str, float]]


@dataclass(frozen=True)
class Kept:
    """The numbers that a strategy had left open.

    Attributes:
        asked: A name for the strategy as it was asked for.
        rounds: T, as the numbers hang on it.
        numbers: What was found, by the strategy's own names.

    >>> found = Kept.of(Remembered(), Remembered(0.25, 0.5), 40)
    >>> found.numbers
    {'horizon': 0.25, 'heterogeneity': 0.5}
    >>> found.answers(Remembered(), 40), found.answers(Remembered(), 80)
    (True, False)
    >>> found.fill(Remembered())
    Remembered(horizon=0.25, heterogeneity=0.5, target=None)
    """

    asked: str
    rounds: int
    numbers: Numbers

    @classmethod
    def of(cls, asked: Strategy, resolved: Strategy, rounds: int) -> Kept | None:
        """What the second has and the first leaves open; None if nothing was open."""
        open_names = left_open(asked)
        if not open_names:
            return None
        found = {name: getattr(_rule(resolved), name) for name in open_names}
        numbers = {k: asdict(v) if isinstance(v, Constants) else v for k, v in found.items()}
        return cls(_name(asked), rounds, numbers)

    def answers(self, asked: Strategy, rounds: int) -> bool:
        """Are these the numbers of this strategy in a run of this length?"""
        return bool(left_open(asked)) and (_name(asked), rounds) == (self.asked, self.rounds)

    def fill(self, asked: Strategy) -> Strategy:
        """The strategy with its numbers."""
        if isinstance(asked, Forgetting):
            return replace(asked, base=self.fill(asked.base))
        # A file gives back a record of numbers where there were constants.
        found: dict[str, Any] = {
            name: Constants(**value) if isinstance(value, Mapping) else value
            for name, value in self.numbers.items()
        }
        assert isinstance(asked, Optimal | Target | Remembered)
        return replace(asked, **found)


def _name(strategy: Strategy) -> str:
    # Whatever cannot be identified shows in the weights, which are compared too.
    return digest(strategy, unknown="")


def _rule(strategy: Strategy) -> Strategy:
    """The strategy that weighs, below one that forgets."""
    return _rule(strategy.base) if isinstance(strategy, Forgetting) else strategy


def left_open(strategy: Strategy) -> list[str]:
    """Which numbers of a strategy are to be measured, by its own names for them.

    >>> left_open(Remembered(0.25)), left_open(Forgetting(Optimal())), left_open(Optimal(0.1))
    (['heterogeneity'], ['ratio'], [])
    """
    rule = _rule(strategy)
    if isinstance(rule, Optimal):
        names = ["ratio"]
    elif isinstance(rule, Target):
        names = ["constants"]
    elif isinstance(rule, Remembered):
        names = ["horizon", "heterogeneity"]
    else:
        names = []
    return [name for name in names if getattr(rule, name) is None]
