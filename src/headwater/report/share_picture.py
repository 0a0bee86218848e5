"""A picture of the question that a fleet has: accuracy over p_hist, and what each rule chose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.artist import Artist
from matplotlib.axes import Axes

from headwater.experiments.paper.claims import place
from headwater.experiments.paper.grid import GRID_LINES
from headwater.experiments.table import Table
from headwater.report.accuracy import save_picture
from headwater.report.style import COLOURS, figure, plain

_RULES = {"Uniform": "o", "Ours": "s", "Remembered": "D"}
_WIDE = 4  # panels side by side


def draw_shares(tables: Sequence[Table], path: Path) -> None:
    """One panel for each table: the grid as a line, the choices of the rules as marks."""
    rows = -(-len(tables) // _WIDE)
    columns = min(_WIDE, len(tables))
    picture = figure(3.4 * columns, 3.0 * rows)
    panels = list(picture.subplots(rows, columns, squeeze=False).flat)
    for axes, table in zip(panels, tables, strict=False):
        _panel(axes, table)
    for axes in panels[len(tables) :]:
        axes.set_visible(False)
    handles, labels = _legend(picture.axes)
    picture.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    picture.supxlabel("p_hist: what the historical clients count together")
    picture.supylabel("Test accuracy (%), last tenth of the tests")
    save_picture(picture, path)


def _panel(axes: Axes, table: Table) -> None:
    grid = [(share, table.lines[n]) for n, share in GRID_LINES.items() if n in table.lines]
    means = [100 * line.late_accuracy.mean for _, line in grid]
    spread = [100 * (line.late_accuracy.ci95 or 0.0) for _, line in grid]
    axes.errorbar(
        [share for share, _ in grid], means, spread, color="0.5", capsize=2, label="grid", zorder=1
    )
    for (name, marker), colour in zip(_RULES.items(), COLOURS, strict=False):
        line = table.lines.get(name)
        if line:
            share, accuracy = line.mean("historical_share"), 100 * line.late_accuracy.mean
            axes.plot(share, accuracy, marker, color=colour, markersize=7, label=name, zorder=2)
    axes.set(title=place(table), xlim=(-0.05, 1.05))
    plain(axes)


def _legend(panels: Sequence[Axes]) -> tuple[list[Artist], list[str]]:
    """Every name once, from whichever panel has it."""
    found: dict[str, Artist] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    return list(found.values()), list(found)
