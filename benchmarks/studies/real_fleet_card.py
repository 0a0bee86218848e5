"""The table and the picture of ``python -m benchmarks.studies.real_fleet``."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

from scipy.stats import t as student

Row = dict[str, Any]


def interval(values: list[float]) -> str:
    """Mean and 95 % interval, in per cent."""
    mean = 100 * statistics.mean(values)
    if len(values) < 2:
        return f"{mean:.1f}"
    width = student.ppf(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:.1f} ± {100 * width:.1f}"


def table(rows: list[Row]) -> str:
    """Markdown: one line per strategy."""
    head = (
        "| strategy | archives count | fleet, last fifth | simulator, 95 % over seeds | "
        "on equal arrivals | less the first, seed by seed | one model, what came | "
        "fleet, test then train | largest difference of a parameter | seconds a round |"
    )
    lines = [head, "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for row in rows:
        right = f"{100 * row['prequential']:.1f} of {row['scored']:,.0f}"
        stream = right if row["scored"] else "–"  # a node without a share gets no model
        pairs = zip(row["equal"], rows[0]["equal"], strict=True)
        ahead = "" if row is rows[0] else interval([mine - first for mine, first in pairs])
        lines.append(
            f"| {row['strategy']} | {row['historical']:.2f} | {100 * row['test']:.1f} | "
            f"{interval(row['simulated'])} | {interval(row['equal'])} | {ahead} | "
            f"{100 * row['came']:.1f} | {stream} | "
            f"{row['difference']:.1e} | {statistics.median(row['seconds']):.0f} |"
        )
    everything = 100 * rows[-1]["everything"]
    lines.append(f"| one model, everything | | {everything:.1f} | | | | | | | |")
    return "\n".join(lines)


def draw(rows: list[Row], path: Path) -> None:
    """Test accuracy of each strategy over the rounds, and test then train."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (tests, stream) = pyplot.subplots(1, 2, figsize=(9.5, 3.6), sharey=True)
    for row in rows:
        rounds = range(1, len(row["curve"]) + 1)
        scored = [value if value is None else 100 * value for value in row["stream"]]
        (line,) = tests.plot(rounds, [100 * v for v in row["curve"]], label=row["strategy"])
        tests.plot(rounds[-1], 100 * row["test"], "o", color=line.get_color())
        stream.plot(rounds, [math.nan if v is None else v for v in scored], color=line.get_color())
    tests.axhline(100 * rows[-1]["everything"], color="black", lw=0.8, ls="--")
    tests.annotate(
        "one model, all data in one place",
        (1, 100 * rows[-1]["everything"]),
        textcoords="offset points",
        xytext=(0, 3),
        fontsize=8,
    )
    tests.set_title("Each station's last fifth", fontsize=10)
    tests.set_ylabel("right forecasts, %")
    stream.set_title("Test, then train: the latest hours", fontsize=10)
    for axes in (tests, stream):
        axes.set_xlabel("round")
        axes.spines[["top", "right"]].set_visible(False)
    tests.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
