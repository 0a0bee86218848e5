"""Strategies by their names on the command line."""

from __future__ import annotations

from collections.abc import Callable

from headwater.errors import InputError
from headwater.ledger.optimal import Optimal
from headwater.ledger.strategies import ByMemory, Fresh, Historical, Share, Strategy, Uniform

_NAMED: dict[str, Callable[[], Strategy]] = {
    "uniform": Uniform,
    "historical": Historical,
    "fresh": Fresh,
    "memory": ByMemory,
    "optimal": Optimal,
    "sharp": lambda: Optimal(bound="sharp"),
}
ALL = "fresh,historical,memory,uniform,optimal"
NAMES = f"{', '.join(_NAMED)}, share=0.5 (historical clients count one half together)"


def parse_strategies(text: str, ratio: float | None) -> dict[str, Strategy]:
    """The strategies of a comma-separated list, by name.

    >>> parse_strategies("uniform, share=0.5", None)
    {'uniform': Uniform(), 'share=0.5': Share(historical=0.5)}
    """
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"--strategies: at least one of {NAMES}")
    return {name: _one(name, ratio) for name in names}


def _one(name: str, ratio: float | None) -> Strategy:
    if name.startswith("share="):
        try:
            return Share(float(name.removeprefix("share=")))
        except ValueError as error:
            raise InputError(
                f"--strategies: {name!r} needs a fraction from 0 to 1, as in share=0.5"
            ) from error
    if name not in _NAMED:
        raise InputError(f"--strategies: unknown strategy {name!r}; there are: {NAMES}")
    strategy = _NAMED[name]()
    return Optimal(ratio, strategy.bound) if isinstance(strategy, Optimal) else strategy
