"""The picture of accuracy over rounds."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np

from headwater.files import replace
from headwater.learner import Record
from headwater.report.style import COLOURS, figure, plain

Curves = dict[str, Sequence[Sequence[Record]]]


def draw_accuracy(curves: Curves, title: str, path: Path) -> None:
    """Mean test accuracy of each strategy over the rounds, with the range over the seeds."""
    picture = figure()
    axes = picture.add_subplot()
    ends = []
    for colour, (label, runs) in zip(_colours(len(curves)), curves.items(), strict=True):
        rounds = [r.round for r in runs[0] if r.accuracy is not None]
        values = 100 * np.array([[r.accuracy for r in run if r.accuracy is not None] for run in runs])
        axes.fill_between(rounds, values.min(0), values.max(0), color=colour, alpha=0.12, linewidth=0)
        axes.plot(rounds, values.mean(0), color=colour, linewidth=1.8)
        ends.append((float(values.mean(0)[-1]), label, colour))
    low, high = axes.get_ylim()
    for y, (_, label, colour) in zip(_apart([e[0] for e in ends], (high - low) / 18), ends, strict=True):
        axes.annotate(label, (1.01, y), xycoords=("axes fraction", "data"), color=colour, va="center", fontsize=9)
    axes.set(xlabel="Communication round", ylabel="Test accuracy, averaged over clients (%)", title=title)
    axes.margins(x=0.01)
    plain(axes)
    buffer = BytesIO()
    picture.savefig(buffer, format="png")
    replace(path, buffer.getvalue())


def _colours(number: int) -> list[str]:
    return [COLOURS[k % len(COLOURS)] for k in range(number)]


def _apart(heights: Sequence[float], gap: float) -> list[float]:
    """Move labels up where they would lie on each other."""
    places = [0.0] * len(heights)
    last = -np.inf
    for k in np.argsort(heights):
        last = places[k] = max(heights[k], last + gap)
    return places
