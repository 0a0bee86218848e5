"""Pictures of accuracy, or what else a task is measured by, over rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import isotonic_regression

from headwater.experiments.measure import ACCURACY, Measure
from headwater.experiments.training_run import Outcome
from headwater.files import replace
from headwater.randomness import Floats
from headwater.report.style import Look, figure, plain

Curves = Mapping[str, Sequence[Outcome]]
"""Line -> its runs, one per seed."""
_ROUNDS = "Communication round"


def draw_accuracy(curves: Curves, title: str, path: Path) -> None:
    """Mean test score of each strategy over the rounds, with the range over the seeds."""
    picture = figure()
    axes = picture.add_subplot()
    looks = {name: Look.number(k) for k, name in enumerate(curves)}
    _draw(axes, curves, looks)
    _name(axes, curves, looks)
    axes.set(xlabel=_ROUNDS, ylabel=_label(_measure(curves)), title=title)
    save_picture(picture, path)


def draw_panels(panels: Mapping[str, Curves], title: str, path: Path) -> None:
    """Several such pictures side by side with one scale; one without curves says so."""
    picture = figure(4.4 * len(panels), 3.9)
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    looks = {name: Look.number(k) for k, name in enumerate(names)}
    row = picture.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (heading, curves) in zip(row, panels.items(), strict=True):
        _draw(axes, curves, looks)
        axes.set(xlabel=_ROUNDS, title=heading)
        if not curves:
            axes.set_xticks([])
            axes.text(0.5, 0.5, "not run yet", transform=axes.transAxes, ha="center", color="0.5")
    for axes, curves in zip(row, panels.values(), strict=True):  # now that the scale is known
        _name(axes, curves, looks)
    row[0].set_ylabel(_label(ACCURACY))
    picture.suptitle(title)
    save_picture(picture, path)


def _measure(curves: Curves) -> Measure:
    """What all runs are measured by."""
    return Measure.named(next(run.measure for runs in curves.values() for run in runs))


def _label(measure: Measure) -> str:
    unit = " (%)" if measure.percent else ""
    return f"Test {measure.words.lower()}, averaged over clients{unit}"


def _draw(axes: Axes, curves: Curves, looks: Mapping[str, Look]) -> None:
    for label, runs in curves.items():
        # seeds may have been tested in different rounds; what all have can be compared
        rounds = sorted(set.intersection(*({test.round for test in run.curve} for run in runs)))
        tested = [{test.round: test.score for test in run.curve} for run in runs]
        values = np.array([[run[round] for round in rounds] for run in tested])
        values *= Measure.named(runs[0].measure).scale
        look = looks[label]
        axes.fill_between(
            rounds, values.min(0), values.max(0), color=look.colour, alpha=0.12, linewidth=0
        )
        axes.plot(rounds, values.mean(0), color=look.colour, linestyle=look.line, linewidth=1.8)
    axes.margins(x=0.01)
    plain(axes)


def _name(axes: Axes, curves: Curves, looks: Mapping[str, Look]) -> None:
    """Each curve's name at its end."""
    low, high = axes.get_ylim()
    ends = [float(np.asarray(line.get_ydata())[-1]) for line in axes.get_lines()]
    for place, label in zip(_apart(ends, (high - low) / 18), curves, strict=True):
        axes.annotate(
            label if looks[label].line == "solid" else f"{label} ({looks[label].line})",
            (1.01, place),
            xycoords=("axes fraction", "data"),
            color=looks[label].colour,
            va="center",
            fontsize=9,
        )


def _apart(heights: Sequence[float], gap: float) -> Floats:
    """Move labels that would lie on each other, all together as little as can be (least squares).

    >>> _apart([5.0, 1.0, 1.0], 2.0)
    array([5., 0., 2.])
    """
    if not len(heights):
        return np.empty(0)
    order = np.argsort(heights, kind="stable")
    steps = gap * np.arange(len(order))
    places = np.empty(len(order))
    places[order] = isotonic_regression(np.array(heights)[order] - steps).x + steps
    return places


def save_picture(picture: Figure, path: Path) -> None:
    """Write a picture as a whole or not at all."""
    buffer = BytesIO()
    picture.savefig(buffer, format="png")
    replace(path, buffer.getvalue())
