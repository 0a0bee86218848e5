"""One look for all pictures: colours that colour-blind eyes can tell apart, words on the axes, no
clutter."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's palette without its yellow, which is too light for lines
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")


@dataclass(frozen=True)
class Look:
    """How a line looks: when the colours are used up they come again with dashes.

    >>> Look.number(0), Look.number(7)
    (Look(colour='#0072B2', line='solid'), Look(colour='#0072B2', line='dashed'))
    """

    colour: str
    line: str

    @classmethod
    def number(cls, place: int) -> Look:
        """The look of the line at this place."""
        again, place = divmod(place, len(COLOURS))
        return cls(COLOURS[place], ("solid", "dashed", "dotted", "dashdot")[again % 4])


def figure(width: float = 7.0, height: float = 4.2) -> Figure:
    """A new picture, free of global state."""
    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def plain(axes: Axes) -> None:
    """Only what helps to read."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, axis="y", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
