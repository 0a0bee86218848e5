"""``python -m benchmarks.studies.drift_card``: what the study of streams that change has found.

Reads ``docs/results/drift/activity.jsonl`` and writes ``docs/results/drift.md`` with its picture.
Of each course only seeds of which every run is finished count. What is said in words stands in
``docs/results/remarks/drift.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np

from benchmarks.studies.drift import COURSES, HISTORICAL, PLACE, STRATEGIES, score
from headwater.experiments.over_seeds import Interval
from headwater.experiments.run_log import RunLog
from headwater.experiments.tasks.drift import Course, Drifting
from headwater.experiments.tasks.synthetic import Synthetic
from headwater.report.accuracy import save_picture
from headwater.report.style import COLOURS, figure, plain
from headwater.report.table import markdown_table

ROUNDS, CHANGE = 150, 75
"""Rounds of a run, and the last one before the change."""

Runs = Mapping[tuple[str, str, int], Mapping[str, Any]]
_SMOOTH = 7  # rounds


def read() -> tuple[Runs, float]:
    """The runs by course, strategy and seed, and their learning rate."""
    stored = [line for line in RunLog(PLACE / "activity.jsonl").read("run") if not line["tuning"]]
    runs = {(r["course"], r["strategy"], r["seed"]): r for r in stored}
    return runs, stored[0]["rate"]


def complete(runs: Runs, course: str) -> list[int]:
    """The seeds of which every strategy is finished."""
    every = sorted({seed for *_, seed in runs})
    return [s for s in every if all((course, name, s) in runs for name in STRATEGIES)]


def table(runs: Runs, course: str) -> str:
    """One line for each strategy."""
    seeds = complete(runs, course)

    def over(strategy: str, first: int, last: int) -> list[float]:
        return [score(runs[course, strategy, seed], first, last) for seed in seeds]

    def paired(strategy: str) -> str:
        after = np.array(over(strategy, CHANGE + 1, ROUNDS))
        if strategy == "uniform":
            return "–"
        found = Interval.of((after - over("uniform", CHANGE + 1, ROUNDS)).tolist())
        return f"{100 * found.mean:+.1f} ± {100 * (found.ci95 or 0):.1f}"

    def tested(strategy: str) -> str:
        return str(Interval.of([runs[course, strategy, seed]["test"] for seed in seeds]))

    def alarms(strategy: str) -> str:
        found = [runs[course, strategy, seed]["alarms"] for seed in seeds]
        return "; ".join(", ".join(map(str, a)) or "none" for a in found) if any(found) else "–"

    columns = {
        "Strategy": lambda s: s,
        "Rounds 21–75 %": lambda s: str(Interval.of(over(s, 21, CHANGE))),
        "Rounds 76–150 %": lambda s: str(Interval.of(over(s, CHANGE + 1, ROUNDS))),
        "minus uniform, points": paired,
        "Last test %": tested,
        "Alarms by seed": alarms,
    }
    return f"{len(seeds)} seeds.\n\n" + markdown_table(columns, list(STRATEGIES))


def draw(runs: Runs) -> None:
    """Accuracy of samples as they arrive, over the rounds, for each course of the change."""
    picture = figure(12, 4)
    panels = picture.subplots(1, 3, sharey=True)
    for axes, course in zip(panels, get_args(Course), strict=True):
        new = Drifting(Synthetic(), course=course).new(ROUNDS)
        axes.imshow(
            new[None], extent=(0.5, ROUNDS + 0.5, 0, 100), aspect="auto", cmap="Greys", vmax=5
        )
        seeds = complete(runs, course)
        for colour, strategy in zip(COLOURS, STRATEGIES, strict=False):
            curves = [_smooth(runs[course, strategy, seed]["prequential"]) for seed in seeds]
            mean = 100 * np.mean(curves, axis=0)
            axes.plot(np.arange(1, ROUNDS + 1), mean, color=colour, label=strategy, linewidth=1.6)
        axes.set(title=course, xlabel="Round", ylim=(0, 100))
        plain(axes)
    panels[0].set_ylabel("Accuracy of samples as they arrive (%)")
    panels[0].legend(frameon=False, fontsize=8, loc="lower left")
    save_picture(picture, PLACE.with_suffix(".png"))


def _smooth(arrivals: Sequence[Sequence[float]]) -> np.ndarray:
    """The mean over the arrivals of the last rounds."""
    counts, values = np.array(arrivals).T
    ones = np.ones(_SMOOTH)
    right, there = (np.convolve(v, ones)[:ROUNDS] for v in (counts * values, counts))
    return right / np.maximum(there, 1)


def main() -> None:
    runs, rate = read()
    draw(runs)
    remarks = (PLACE.parent / "remarks" / "drift.md").read_text()
    words = {
        "none": "Without a change",
        "sudden": "A sudden change: from round 76 on",
        "gradual": "A gradual change: from none in round 76 to all in round 105",
        "back and forth": "Back and forth: rounds 76–105 and 136–150",
    }
    parts = [f"## {words[course]}\n\n{table(runs, course)}" for course in COURSES]
    settings = (
        f"{100 * HISTORICAL:g} % of the users are historical; {ROUNDS} rounds, five local steps, "
        f"learning rate {rate:g} for all: the best mean over the strategies "
        "without a change, among 0.01, 0.03, 0.1, 0.3 and 1, on streams that end before the "
        "validation part."
    )
    text = remarks.replace("SETTINGS", settings).replace("TABLES", "\n\n".join(parts))
    PLACE.with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
