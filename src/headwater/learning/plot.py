"""A picture of a run: loss and metrics over the rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headwater.errors import InputError
from headwater.learning.algorithm import Record

if TYPE_CHECKING:
    from headwater.learning.run import Run

_COLOUR = "#0072B2"


def plot_history(run: Run) -> Figure:
    """One panel for the loss and one for each metric."""
    tested = [record for record in run.history if record.tested]
    if not tested:
        raise InputError("plot: the run was not tested; give clients test sets, or test=(x, y)")
    names = ["loss", *tested[0].metrics]
    picture = Figure(figsize=(4.2 * len(names), 3.4), layout="constrained")
    panels = picture.subplots(1, len(names), squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        _draw(axes, tested, name)
    panels[-1].legend(frameon=False)
    picture.suptitle(repr(run.strategy))
    return picture


def _draw(axes: Axes, tested: list[Record], name: str) -> None:
    rounds = [record.round for record in tested]
    axes.plot(rounds, [record.value(name) for record in tested], color=_COLOUR, label="mean")
    if all(name in record.worst for record in tested):
        worst = [record.worst[name] for record in tested]
        axes.plot(rounds, worst, color=_COLOUR, linestyle=":", label="worst tenth of the clients")
    axes.set(xlabel="Round", ylabel=name)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, axis="y", color="0.9", linewidth=0.8)
