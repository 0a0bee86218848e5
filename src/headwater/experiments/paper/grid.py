"""The paper's columns, and the best of its grid: a line made of other lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from headwater.experiments.over_seeds import Line
from headwater.experiments.paper.published import FRACTIONS
from headwater.experiments.table import Table

BEST = "Best of grid"
"""The best p_hist of the grid by test accuracy; the paper's column "Optimal"."""
PAPER_COLUMNS = {
    "Fresh": "fresh",
    "Historical": "historical",
    "Uniform": "uniform",
    "Ours": "ours",
    BEST: "optimal",
}
"""Line -> the column of the paper's tables that it stands for."""
GRID_LINES = {
    "Fresh": 0.0,
    "Share 0.2": 0.2,
    "Share 0.5": 0.5,
    "Share 0.8": 0.8,
    "Historical": 1.0,
}
"""Line -> its p_hist."""


def lines_with_best(table: Table) -> dict[str, Line]:
    """The paper's lines first, the best of the grid once all of the grid have a seed, the rest."""
    best = best_of_grid(table.lines)
    found = dict(table.lines) if best is None else {**table.lines, BEST: best}
    first = [name for name in PAPER_COLUMNS if name in found]
    return {name: found[name] for name in (*first, *(n for n in found if n not in PAPER_COLUMNS))}


def best_of_grid(lines: Mapping[str, Line]) -> Line | None:
    """The line of the grid with the best mean accuracy over the seeds that all of them have."""
    grid, seeds = _whole_grid(lines)
    if not seeds:
        return None
    best = _best_on(grid, seeds)
    outcomes = {seed: best.outcomes[seed] for seed in seeds}
    return Line(BEST, best.about, best.learning_rate, outcomes, best.planned)


def best_on_other_seeds(lines: Mapping[str, Line]) -> Line | None:
    """Every seed with the line of the grid that is best on the *other* seeds; needs two.

    The best of five noisy means is partly the luckiest of them, on the very tests that chose it.
    What was chosen on other seeds is what somebody with a grid could have had on this one.
    """
    grid, seeds = _whole_grid(lines)
    if len(seeds) < 2:
        return None
    outcomes = {
        seed: _best_on(grid, [s for s in seeds if s != seed]).outcomes[seed] for seed in seeds
    }
    about = "the best p_hist of the grid on the other seeds"
    return Line("Grid", about, grid[0].learning_rate, outcomes, grid[0].planned)


def _whole_grid(lines: Mapping[str, Line]) -> tuple[list[Line], list[int]]:
    """The grid's lines and the seeds that all of them have; no seeds unless all are there."""
    grid = [lines[name] for name in GRID_LINES if name in lines]
    if len(grid) < len(GRID_LINES):
        return grid, []
    return grid, sorted(set.intersection(*(set(line.outcomes) for line in grid)))


def _best_on(grid: Sequence[Line], seeds: Sequence[int]) -> Line:
    def score(line: Line) -> float:
        return float(np.mean([line.outcomes[seed].late_score for seed in seeds]))

    return max(grid, key=score)


def table_file(results: Path, dataset: str, historical: float) -> Path:
    """Where a table is kept.

    >>> table_file(Path("docs/results"), "cifar10", 0.2).as_posix()
    'docs/results/cifar10-20/runs.jsonl'
    """
    return results / f"{dataset}-{100 * historical:g}" / "runs.jsonl"


def load_tables(results: Path, dataset: str) -> list[Table]:
    """The stored tables of a data set, smallest fraction first."""
    found = (Table.load(table_file(results, dataset, fraction)) for fraction in FRACTIONS)
    return [table for table in found if table is not None]
