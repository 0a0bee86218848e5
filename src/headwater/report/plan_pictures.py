"""The paper's figures for a fleet of one's own: optimum and strategies against ratio and history.

The fleet's clients stay as they are; only the proportion of historical samples, or c2/c1, varies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headwater.files import replace as write
from headwater.fleet import Comparison, Outlook, compare
from headwater.fleet.fleet import Flags
from headwater.randomness import Floats
from headwater.report.style import COLOURS, figure, plain

_POINTS = 81
_FRACTIONS = (0.05, 0.2, 0.5)
_FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
_HERE = "#000000"


@dataclass(frozen=True)
class _Panel:
    """One of several pictures side by side: what it shows of a comparison, and its words."""

    label: str
    title: str
    value: Callable[[Comparison], float]


_BY_RATIO = (
    _Panel(
        "Importance of historical clients (%)",
        "Who should count",
        lambda found: 100 * found.best.historical,
    ),
    _Panel(
        "Effective samples (% of all samples)",
        "What is left to generalise from",
        lambda found: 100 * found.best.effective_samples / found.outlook.total,
    ),
    _Panel(
        "Gradient noise (in units of c1)",
        "What it costs in noise",
        lambda found: found.best.noise,
    ),
)
_GAPS = (
    _Panel(
        "Bound of historical − optimum (ψ/c1)",
        "Learning from history alone",
        lambda found: found["historical"].total - found.best.total,
    ),
    _Panel(
        "Bound of uniform − optimum (ψ/c1)",
        "Counting all samples alike",
        lambda found: found["uniform"].total - found.best.total,
    ),
    _Panel(
        "Bound of historical − uniform (ψ/c1)",
        "Below zero: history alone is better",
        lambda found: found["historical"].total - found["uniform"].total,
    ),
)


def nothing_to_draw(comparison: Comparison) -> str | None:
    """Why there can be no pictures; None if there can."""
    outlook = comparison.outlook
    if not 0 < outlook.fresh_clients < outlook.clients:
        return "they need historical and fresh clients"
    if not 0 < comparison.ratio < np.inf:
        return "they need a ratio above zero"
    return None


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """Write both pictures into a folder; returns where they are."""
    pictures = {
        "optimum_by_ratio.png": draw_by_ratio(comparison),
        "gaps_by_history.png": draw_gaps(comparison),
    }
    for name, picture in pictures.items():
        buffer = BytesIO()
        picture.savefig(buffer, format="png")
        write(folder / name, buffer.getvalue())
    return [folder / name for name in pictures]


def with_history(outlook: Outlook, fraction: float) -> Outlook:
    """The same clients and as many samples in all, ``fraction`` of them historical."""
    old = history(outlook)
    scale = np.where(outlook.fresh, (1 - fraction) / (1 - old), fraction / old)
    terms = outlook.terms
    scaled = replace(terms, samples=terms.samples * scale, drawable=terms.drawable * scale)
    return replace(outlook, terms=scaled)


def history(outlook: Outlook) -> float:
    """N_hist/N, the fraction of the samples that is historical."""
    return float(outlook.row_samples[~outlook.fresh].sum() / outlook.total)


def draw_by_ratio(comparison: Comparison) -> Figure:
    """Optimal historical share, effective samples and noise against c2/c1 (figures 1 and 6)."""
    ours = history(comparison.outlook)
    fractions = sorted({ours, *(f for f in _FRACTIONS if not 0.6 < f / ours < 1.6)})
    ratios = _ratios(comparison, fractions)
    outlooks = {f: with_history(comparison.outlook, f) for f in fractions}
    found = {
        f: [compare(outlooks[f], ratio, comparison.bound) for ratio in ratios] for f in fractions
    }
    labels = {f: f"{100 * f:.3g} %" for f in fractions}
    picture = figure(11.5, 4.0)
    for axes, panel in zip(picture.subplots(1, 3), _BY_RATIO, strict=True):
        lines = _curves(found, panel, labels)
        _draw_lines(axes, ratios, lines, _Here(ours, comparison.ratio, labels))
        axes.set(xscale="log", ylabel=panel.label, title=panel.title)
        axes.set_ylim(bottom=0)
    _legend(picture, "Historical samples:")
    picture.supxlabel(
        "c2/c1, the price of few samples over the price of noise (dashed: this fleet)", fontsize=10
    )
    return picture


def _ratios(comparison: Comparison, fractions: Sequence[float]) -> Floats:
    """From where history alone is best to where all samples count alike, and this fleet's ratio."""
    corners = [
        replace(comparison, outlook=with_history(comparison.outlook, f)).historical_suffices
        for f in fractions
    ]
    found = [corner for corner in corners if corner] or [comparison.ratio]
    low = min(*found, comparison.ratio) / 3
    high = max(30 * max(found), 3 * comparison.ratio)
    return np.geomspace(low, high, _POINTS)


def draw_gaps(comparison: Comparison) -> Figure:
    """What history alone and all alike cost beyond the optimum, against N_hist/N (figure 2)."""
    ratios = [comparison.ratio * factor for factor in _FACTORS]
    ours = history(comparison.outlook)
    fractions = np.linspace(0.1, 0.995, _POINTS) ** 2
    outlooks = [with_history(comparison.outlook, fraction) for fraction in fractions]
    found = {
        ratio: [compare(outlook, ratio, comparison.bound) for outlook in outlooks]
        for ratio in ratios
    }
    labels = {ratio: f"{ratio:.3g}" for ratio in ratios}
    picture = figure(11.5, 4.0)
    for axes, panel in zip(picture.subplots(1, 3), _GAPS, strict=True):
        lines = _curves(found, panel, labels)
        _draw_lines(axes, 100 * fractions, lines, _Here(comparison.ratio, 100 * ours, labels))
        axes.set(ylabel=panel.label, title=panel.title)
        _zoom(axes, lines, comparison.ratio, fractions >= min(0.2, ours))
    _legend(picture, "c2/c1:")
    picture.supxlabel("Historical samples, % of all samples (dashed: this fleet)", fontsize=10)
    return picture


def _curves(
    found: Mapping[float, Sequence[Comparison]], panel: _Panel, labels: Mapping[float, str]
) -> Mapping[float, Floats]:
    """What a panel shows of each of some rows of comparisons."""
    return {key: np.array([panel.value(each) for each in found[key]]) for key in labels}


def _zoom(axes: Axes, lines: Mapping[float, Floats], ours: float, shown: Flags) -> None:
    """Leave out where the largest ratios run off with almost no history; our own curve decides."""
    parts = {ratio: values[shown] for ratio, values in lines.items()}
    lowest = min(part.min() for part in parts.values())
    highest = max(part.max() for part in parts.values())
    top = min(highest, 3 * max(parts[ours].max(), -lowest))
    margin = 0.04 * (top - lowest) or 1.0
    axes.set_ylim(lowest - margin, top + margin)


@dataclass(frozen=True)
class _Here:
    """Where the fleet itself is: which of the lines, and at which place."""

    line: float
    place: float
    labels: Mapping[float, str]


def _draw_lines(axes: Axes, x: Floats, lines: Mapping[float, Floats], here: _Here) -> None:
    axes.axvline(here.place, color="0.5", linewidth=1, linestyle="--")
    # Black, the last colour, is for the fleet itself.
    for colour, (key, values) in zip(COLOURS, lines.items(), strict=False):
        if key != here.line:
            axes.plot(x, values, color=colour, linewidth=1.6, label=here.labels[key])
            continue
        name = f"{here.labels[key]} (this fleet)"
        axes.plot(x, values, color=_HERE, linewidth=2.4, label=name)
        axes.plot(here.place, np.interp(here.place, x, values), "o", color=_HERE, markersize=7)
    plain(axes)


def _legend(picture: Figure, title: str) -> None:
    """The lines' names in their own colours, in one row above all panels."""
    handles, names = picture.axes[0].get_legend_handles_labels()
    picture.legend(
        handles,
        names,
        loc="outside upper center",
        ncols=len(names),
        frameon=False,
        labelcolor="linecolor",
        title=title,
        handlelength=1.4,
    )
