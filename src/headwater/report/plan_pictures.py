"""The paper's figures for a federation of one's own: the optimum and the strategies against ratio
and history.

The federation's clients stay as they are; only the proportion of historical samples, or c2/c1, is
varied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headwater.errors import InputError
from headwater.files import replace as write
from headwater.fleet import Comparison, Outlook, compare
from headwater.randomness import Floats
from headwater.report.style import COLOURS, figure, plain

_POINTS = 81
_FRACTIONS = (0.05, 0.2, 0.5)
_FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
_HERE = "#000000"


@dataclass(frozen=True)
class _Line:
    """A curve, its label, and its colour; the federation's own is black."""

    label: str
    colour: str
    values: Floats


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """Write both pictures into a folder; returns where they are."""
    o = comparison.outlook
    if not 0 < o.fresh_clients < o.count.sum() or not 0 < comparison.ratio < np.inf:
        raise InputError("pictures need historical and fresh clients, and a ratio above zero")
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
    parts = outlook.group_samples
    old = parts[~outlook.fresh].sum() / outlook.total
    scale = np.where(outlook.fresh, (1 - fraction) / (1 - old), fraction / old)
    return replace(outlook, samples=outlook.samples * scale)


def history(outlook: Outlook) -> float:
    """N_hist/N."""
    return float(outlook.group_samples[~outlook.fresh].sum() / outlook.total)


def draw_by_ratio(comparison: Comparison) -> Figure:
    """Optimal historical share, effective samples and gradient noise against c2/c1 (figures 1 and
    6)."""
    ours, picture = history(comparison.outlook), figure(11.5, 4.0)
    fractions = sorted({ours, *(f for f in _FRACTIONS if not 0.6 < f / ours < 1.6)})
    ratios = _ratios(comparison, fractions)
    curves = {f: _by_ratio(comparison, f, ratios) for f in fractions}
    texts = (
        ("Importance of historical clients (%)", "Who should count"),
        ("Effective samples (% of all samples)", "What is left to generalise from"),
        ("Gradient noise (in units of c1)", "What it costs in noise"),
    )
    for k, (axes, (label, title)) in enumerate(zip(picture.subplots(1, 3), texts, strict=True)):
        lines = [
            _line(f"{100 * f:.3g} %", f == ours, n, curves[f][k]) for n, f in enumerate(fractions)
        ]
        _panel(axes, ratios, lines, comparison.ratio)
        axes.set(xscale="log", ylabel=label, title=title)
        axes.set_ylim(bottom=0)
    _legend(picture, "Historical samples:")
    picture.supxlabel(
        "c2/c1, the price of few samples over the price of noise (dashed: this federation)",
        fontsize=10,
    )
    return picture


def _ratios(comparison: Comparison, fractions: Sequence[float]) -> Floats:
    """From where history alone is best to where all samples count alike, and this federation's
    ratio."""
    corners = [
        replace(comparison, outlook=with_history(comparison.outlook, f)).historical_suffices
        for f in fractions
    ]
    found = [corner for corner in corners if corner]
    low, high = min(*found, comparison.ratio) / 3, max(30 * max(found), 3 * comparison.ratio)
    return np.geomspace(low, high, _POINTS)


def _by_ratio(comparison: Comparison, fraction: float, ratios: Floats) -> Floats:
    outlook = with_history(comparison.outlook, fraction)
    best = [compare(outlook, ratio, comparison.bound).best for ratio in ratios]
    rows = [(100 * p.historical, 100 * p.effective_samples / outlook.total, p.noise) for p in best]
    return np.array(rows).T


def draw_gaps(comparison: Comparison) -> Figure:
    """ψ_hist − ψ*, ψ_uniform − ψ* and ψ_hist − ψ_uniform against N_hist/N for several c2/c1 (figure
    2)."""
    ratios, picture = [comparison.ratio * factor for factor in _FACTORS], figure(11.5, 4.0)
    ours, fractions = history(comparison.outlook), np.linspace(0.1, 0.995, _POINTS) ** 2
    curves = [_gaps(comparison, ratio, fractions) for ratio in ratios]
    texts = (
        ("Bound of Historical − optimum (ψ/c1)", "Learning from history alone"),
        ("Bound of Uniform − optimum (ψ/c1)", "Counting all samples alike"),
        ("Bound of Historical − Uniform (ψ/c1)", "Below zero: history alone is better"),
    )
    for k, (axes, (label, title)) in enumerate(zip(picture.subplots(1, 3), texts, strict=True)):
        lines = [
            _line(f"{r:.3g}", r == comparison.ratio, n, curves[n][k]) for n, r in enumerate(ratios)
        ]
        _panel(axes, 100 * fractions, lines, 100 * ours)
        axes.set(ylabel=label, title=title)
        _zoom(
            axes, [line.values[fractions >= min(0.2, ours)] for line in lines], _FACTORS.index(1.0)
        )
    _legend(picture, "c2/c1:")
    picture.supxlabel("Historical samples, % of all samples (dashed: this federation)", fontsize=10)
    return picture


def _zoom(axes: Axes, curves: Sequence[Floats], ours: int) -> None:
    """Leave out where the largest ratios run off with almost no history; the federation's own curve
    decides."""
    lowest, highest = min(c.min() for c in curves), max(c.max() for c in curves)
    top = min(highest, 3 * max(curves[ours].max(), -lowest))
    axes.set_ylim(lowest - 0.04 * (top - lowest), top + 0.04 * (top - lowest))


def _gaps(comparison: Comparison, ratio: float, fractions: Floats) -> Floats:
    rows = []
    for fraction in fractions:
        found = compare(with_history(comparison.outlook, fraction), ratio, comparison.bound)
        old, all_alike, best = (
            found[name].total for name in ("Historical", "Uniform", found.best.strategy)
        )
        rows.append((old - best, all_alike - best, old - all_alike))
    return np.array(rows).T


def _line(label: str, ours: bool, number: int, values: Floats) -> _Line:
    return _Line(label, _HERE if ours else COLOURS[number % (len(COLOURS) - 1)], values)


def _panel(axes: Axes, x: Floats, lines: Sequence[_Line], here: float) -> None:
    axes.axvline(here, color="0.5", linewidth=1, linestyle="--")
    for line in lines:
        ours = line.colour == _HERE
        name = f"{line.label} (this federation)" if ours else line.label
        axes.plot(x, line.values, color=line.colour, linewidth=2.4 if ours else 1.6, label=name)
        if ours:
            axes.plot(here, np.interp(here, x, line.values), "o", color=_HERE, markersize=7)
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
