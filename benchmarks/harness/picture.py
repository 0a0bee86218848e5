"""The report as a picture: a panel a workload, a bar a contender, seconds a round on a logarithmic
scale."""

from pathlib import Path
from textwrap import fill

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from benchmarks.harness.contenders import Kind
from benchmarks.harness.results import Line, Report, Result
from benchmarks.harness.table import seconds

COLOURS = {Kind.OURS.value: "#0b6e99", Kind.PEER.value: "#c9c4b8", Kind.LIMIT.value: "#f0b94d"}


def draw(report: Report, path: Path) -> None:
    """Write the picture to a file."""
    columns = min(2, len(report.results))
    rows = -(-len(report.results) // columns)
    figure, panels = pyplot.subplots(
        rows, columns, figsize=(7.5 * columns, 3.1 * rows), squeeze=False
    )
    for axes, result in zip(panels.flat, report.results, strict=False):
        panel(axes, result)
    for axes in list(panels.flat)[len(report.results) :]:
        axes.set_visible(False)
    machine = report.machine
    figure.suptitle(
        "Seconds a round, logarithmic: shorter is better", fontsize=14, x=0.01, ha="left"
    )
    figure.text(
        0.01,
        0.002,
        f"{machine.processor}, {machine.cores} cores, {machine.date}",
        fontsize=8,
        color="#555555",
    )
    figure.tight_layout(rect=(0, 0.015, 1, 0.985))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def panel(axes: Axes, result: Result) -> None:
    """One workload; the fastest on top."""
    lines = sorted(
        (line for line in result.lines if line.median is not None),
        key=lambda line: -(line.median or 0.0),
    )
    for place, line in enumerate(lines):
        bar(axes, place, line)
    axes.set_yticks(range(len(lines)), [line.title for line in lines], fontsize=9)
    for label, line in zip(axes.get_yticklabels(), lines, strict=True):
        label.set_fontweight("bold" if line.kind == Kind.OURS.value else "normal")
    missing = [line.title for line in result.lines if line.median is None]
    if missing:
        words = fill(f"not measured: {', '.join(missing)}", width=80)
        axes.set_xlabel(words, fontsize=8, color="#555555", loc="left")
    frame(axes, [line.median or 0.0 for line in lines])
    axes.set_title(result.workload.title, fontsize=11, loc="left")


def bar(axes: Axes, place: int, line: Line) -> None:
    """Median as a bar, the middle half of the rounds as a line, the median in words."""
    median, low, high = line.median or 0.0, line.low or 0.0, line.high or 0.0
    axes.barh(place, median, color=COLOURS[line.kind], height=0.72)
    axes.plot([low, high], [place, place], color="#333333", linewidth=1)
    axes.text(max(median, high) * 1.12, place, seconds(median), va="center", fontsize=9)


def frame(axes: Axes, medians: list[float]) -> None:
    """Logarithmic scale with room on both sides, no box."""
    axes.set_xscale("log")
    if medians:
        axes.set_xlim(min(medians) / 3, max(medians) * 6)
    axes.xaxis.set_major_locator(LogLocator(numticks=7))
    axes.xaxis.set_major_formatter(lambda value, _: seconds(value))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", labelsize=8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
