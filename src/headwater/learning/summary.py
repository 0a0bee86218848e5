"""A run made small enough to look at: its curves, its ledger, and how clients fared in the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.learning.algorithm import Record
from headwater.learning.prequential import prequential_means
from headwater.ledger.overview import Overview, evenly

if TYPE_CHECKING:
    from headwater.learning.evaluation import Score
    from headwater.learning.run import Run

_POINTS = 200  # of a curve, and of the clients from worst to best
_WORST = 12  # clients that are named


def summarise(run: Run) -> dict[str, Any]:
    """What a page shows of a run, as plain values: a few tens of kilobytes, whatever its size."""
    tests = [record for record in run.history if record.tested]
    tests = [tests[k] for k in evenly(0, len(tests) - 1, _POINTS)] if tests else []
    names = ["loss", *tests[0].metrics] if tests else []
    worst = _worst(run.score)
    overview = Overview.of(run.ledger, run.names, worst)
    shown = [line.number for line in overview.lines]
    return {
        "strategy": repr(run.strategy),
        "rounds": run.state.round,
        "tests": {
            "round": [record.round for record in tests],
            "mean": {name: [_number(r.value(name)) for r in tests] for name in names},
            "worst": {
                name: [_number(r.worst.get(name)) for r in tests]
                for name in names
                if any(name in record.worst for record in tests)
            },
        },
        "arrivals": _arrivals(run.history),
        "prequential": {name: _number(v) for name, v in run.prequential.items()},
        "ledger": asdict(overview),
        "clients": _clients(run.score, shown),
    }


def _number(value: float | None) -> float | None:
    """A few digits, as pages and JSON take them; None for what is no finite number."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")


def _arrivals(history: Sequence[Record]) -> dict[str, Any]:
    """Scores of samples as they arrived: stretches of rounds, each a mean over its arrivals."""
    some = [record for record in history if record.arrived]
    stretches = [piece for piece in np.array_split(np.arange(len(some)), _POINTS) if len(piece)]
    means = [prequential_means([some[k] for k in piece]) for piece in stretches]
    names = some[0].prequential if some else ()
    return {
        "round": [some[piece[-1]].round for piece in stretches],
        "mean": {name: [_number(mean[name]) for mean in means] for name in names},
    }


def _worst(score: Score | None) -> list[int]:
    """The clients for whom the model is worst by the first metric whose better end is known."""
    name = None if score is None else _leading(score)
    if score is None or name is None:
        return []
    values = score[name] if score.better[name] == "lower" else -score[name]
    # NaN is sorted to the end: a client without tests is not among the worst.
    order = np.argsort(-values, kind="stable")
    return [int(m) for m in order[:_WORST] if not math.isnan(values[m])]


def _leading(score: Score) -> str | None:
    """The first metric, or the loss, whose better end is known."""
    names = [*(name for name in score.values if name != "loss"), "loss"]
    return next((name for name in names if name in score.better), None)


def _clients(score: Score | None, shown: Sequence[int]) -> dict[str, Any]:
    """The last test: clients from worst to best, and the values of those who are shown."""
    # A common test set says nothing about single clients.
    if score is None or len(score.loss) < 2 or max(shown) >= len(score.loss):
        return {}
    return {
        "leading": _leading(score),
        "ranked": {name: _ranked(score, name) for name in score.values},
        "shown": {name: [_number(score[name][m]) for m in shown] for name in score.values},
        "worst": {name: _number(score.worst(name)) for name in score.values},
        "mean": {name: _number(score.mean(name)) for name in score.values},
        "worst_clients": _worst(score),
    }


def _ranked(score: Score, name: str) -> list[float | None]:
    """Every client's value, worst first; of many clients some that lie evenly."""
    values = np.sort(score[name][np.isfinite(score[name])])
    if score.better.get(name) == "lower":
        values = values[::-1]
    places = evenly(0, len(values) - 1, _POINTS) if len(values) else ()
    return [_number(values[place]) for place in places]
