"""``python -m benchmarks.studies.growth``: how the cost of a round grows.

With clients, with model size, with memory capacity and with the length of the stream.

Straight lines on log paper: slope 1 is cost in proportion, slope 0 is cost that does not change.
"""

import argparse
import dataclasses
import json
import math
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

from benchmarks.harness import machine
from benchmarks.harness.memory import Watch
from benchmarks.harness.runner import Runner
from benchmarks.harness.table import number, seconds
from benchmarks.studies.growth_points import CURVES, Curve, Point

COMMAND = "python -m benchmarks.studies.growth"
PATIENCE = 900.0


@dataclass(frozen=True)
class Measured:
    """A point of a curve: seconds a round, peak memory of the tree of processes in bytes."""

    x: int
    seconds: float
    memory: int


def measure(point: Point, turn: float, log: Path) -> tuple[float, int]:
    """Seconds a round and peak memory, after as many rounds as fill a memory."""
    command = [sys.executable, "-m", "benchmarks.studies.growth_runner", json.dumps(asdict(point))]
    runner = Runner(command, {}, log)
    try:
        with Watch(runner.process.pid) as watch:
            runner.versions(PATIENCE)
            expected = statistics.median(runner.rounds(12, PATIENCE))
        times = runner.rounds(max(3, min(point.rounds - 20, round(turn / expected))), PATIENCE)
    finally:
        runner.end()
    return statistics.median(times), watch.peak


def slope(points: list[Measured], of: str) -> float:
    """Of the last piece of a curve, on log paper.

    >>> slope([Measured(1, 5.0, 7), Measured(10, 5.0, 7), Measured(100, 50.0, 7)], "seconds")
    1.0
    """
    before, last = points[-2:]
    return math.log(getattr(last, of) / getattr(before, of)) / math.log(last.x / before.x)


def overall(points: list[Measured]) -> float:
    """Slope of the straight line through the seconds of all points, on log paper.

    >>> round(overall([Measured(10, 2.0, 7), Measured(100, 4.0, 7), Measured(1000, 8.0, 7)]), 4)
    0.301
    """
    x = [math.log(p.x) for p in points]
    return statistics.linear_regression(x, [math.log(p.seconds) for p in points]).slope


def markdown(found: dict[str, list[Measured]], curves: list[Curve], where: machine.Machine) -> str:
    """A table a curve."""
    parts = []
    for curve in curves:
        points = found[key(curve)]
        parts += [
            f"**{curve.axis}: {curve.title}**",
            "",
            "| | seconds a round | rounds a second | memory |",
            "|---|---|---|---|",
        ]
        for p in points:
            cells = [
                f"{p.x:,}",
                seconds(p.seconds),
                number(1 / p.seconds),
                f"{p.memory / 2**20:,.0f} MB",
            ]
            parts.append("| " + " | ".join(cells) + " |")
        ends = ", ".join(f"{of} {slope(points, of):.2f}" for of in ("seconds", "memory"))
        whole = f"over all points, seconds {overall(points):.2f}"
        parts += ["", f"Slope between the last two points: {ends}; {whole}.", ""]
    return "\n".join([*parts, f"Measured by {where.words()}.", ""])


def key(curve: Curve) -> str:
    """Name of a curve in the results."""
    return f"{curve.axis}: {curve.title}"


def draw(found: dict[str, list[Measured]], curves: list[Curve], path: Path) -> None:
    """Time above, memory below, a column an axis."""
    groups = [(axis, list(group)) for axis, group in groupby(curves, key=lambda curve: curve.axis)]
    figure, panels = pyplot.subplots(
        2, len(groups), figsize=(4.6 * len(groups), 6.4), squeeze=False, sharex="col", sharey="row"
    )
    for column, (axis, group) in enumerate(groups):
        for curve in group:
            points = found[key(curve)]
            x = [p.x for p in points]
            panels[0][column].loglog(
                x, [p.seconds for p in points], "o-", markersize=4, label=curve.title
            )
            panels[1][column].loglog(x, [p.memory / 2**20 for p in points], "o-", markersize=4)
        panels[0][column].legend(frameon=False, fontsize=9)
        panels[1][column].set_xlabel(axis)
    panels[0][0].set_ylabel("seconds a round")
    panels[1][0].set_ylabel("memory of all processes, MB")
    panels[0][0].yaxis.set_major_formatter(lambda value, _: seconds(value))
    panels[1][0].yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panels[1][0].set_ylim(100, None)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(words: list[str]) -> None:
    """Measure all curves, write the tables, the picture and the numbers."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--only", default="", help="curves with this word, such as 'rounds of'")
    parser.add_argument("--largest", type=int, default=10**9, help="leave out points beyond this")
    parser.add_argument(
        "--turn", type=float, default=1.0, help="seconds of rounds to time at each point"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/growth"), help="folder of growth.json, .md, .png"
    )
    options = parser.parse_args(words)
    wanted = [curve for curve in CURVES if options.only in key(curve)]
    if not wanted:
        parser.error(f"--only: none of {', '.join(map(key, CURVES))} has {options.only!r} in it")
    curves = [shortened(curve, options.largest) for curve in wanted]
    found: dict[str, list[Measured]] = {}
    where = machine.describe(" ".join([COMMAND, *words]))
    with tempfile.TemporaryDirectory(prefix="headwater-growth-") as folder:
        for done, curve in enumerate(curves, 1):
            found[key(curve)] = []
            for x, point in curve.points.items():
                found[key(curve)].append(
                    Measured(x, *measure(point, options.turn, Path(folder) / "log"))
                )
                print(f"{key(curve)}: {found[key(curve)][-1]}", file=sys.stderr, flush=True)
            write(found, curves[:done], where, options.out)
    print(markdown(found, curves, where))


def shortened(curve: Curve, largest: int) -> Curve:
    """Without the points beyond the largest; two are kept at least."""
    kept = {
        x: point
        for place, (x, point) in enumerate(curve.points.items())
        if place < 2 or x <= largest
    }
    return dataclasses.replace(curve, points=kept)


def write(
    found: dict[str, list[Measured]], curves: list[Curve], where: machine.Machine, folder: Path
) -> None:
    """The numbers for programs, for readers and for the eye."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = {name: [asdict(point) for point in points] for name, points in found.items()}
    (folder / "growth.json").write_text(
        json.dumps({"machine": asdict(where), "curves": numbers}, indent=1)
    )
    (folder / "growth.md").write_text(markdown(found, curves, where))
    draw(found, curves, folder / "growth.png")


if __name__ == "__main__":
    main(sys.argv[1:])
