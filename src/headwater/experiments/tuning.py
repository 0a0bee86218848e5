"""One learning rate for all lines of a table, by validation data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headwater.errors import InputError
from headwater.experiments.measure import Measure
from headwater.experiments.training_run import Outcome

_LONGEST = 20  # rates that are tried before it is clear that none is best


@dataclass(frozen=True)
class Tuning:
    """How the learning rate is chosen.

    Attributes:
        rates: To choose from; a single one is given, not chosen.
        rounds: T of the tuning runs.
        seeds: Seeds of the tuning runs.
        extend: Go on beyond the ends of ``rates`` until the best lies inside.
    """

    rates: tuple[float, ...]
    rounds: int
    seeds: int
    extend: bool = False


Try = Callable[[Sequence[float]], Mapping[float, Sequence[Outcome]]]
"""Learning rates -> what came out of each, over all lines and seeds."""


def choose_rate(tuning: Tuning, attempt: Try) -> tuple[float, tuple[float, ...]]:
    """The rate with the best mean score over all lines and seeds, and all that were tried.

    Of equally good ones the rate with the smallest mean loss is taken. One rate for all lines:
    chosen line by line on few validation samples, rates differ by chance, and so do the lines then.
    """
    rates = tuple(sorted(tuning.rates))
    found = dict(attempt(rates))
    while True:
        best = max(rates, key=lambda rate: _score(found[rate]))
        more = _beyond(rates, best) if tuning.extend and len(rates) < _LONGEST else None
        if more is None:
            break
        found |= attempt([more])
        rates = tuple(sorted((*rates, more)))
    if all(outcome.loss is None for outcome in found[best]):
        raise InputError("every learning rate that was tried diverged; give a smaller one")
    return best, rates


def _beyond(rates: Sequence[float], best: float) -> float | None:
    """The next rate where the best is the first or the last of them.

    >>> _beyond([0.01, 0.1, 1.0], 1.0), _beyond([0.01, 0.1, 1.0], 0.1)
    (10.0, None)
    """
    if best == rates[-1]:
        return _round(best * rates[-1] / rates[-2])
    return _round(best * rates[0] / rates[1]) if best == rates[0] else None


def _round(rate: float) -> float:
    """To six digits; steps of about √10 meet the half decades again.

    >>> _round(0.1 * 0.1 / 0.031623), _round(0.0123456789)
    (0.316228, 0.0123457)
    """
    half_decades = 2 * np.log10(rate)
    if abs(half_decades - round(half_decades)) < 1e-3:
        rate = 10.0 ** (round(half_decades) / 2)
    return float(f"{rate:.6g}")


def _score(outcomes: Sequence[Outcome]) -> tuple[float, float]:
    losses = [np.inf if outcome.loss is None else outcome.loss for outcome in outcomes]
    return float(np.mean([_merit(outcome) for outcome in outcomes])), -float(np.mean(losses))


def _merit(outcome: Outcome) -> float:
    """The score, turned so that more is better; a diverged run is never worth more than nothing."""
    if Measure.named(outcome.measure).higher:
        return outcome.late_score
    return -np.inf if outcome.loss is None else -outcome.late_score
