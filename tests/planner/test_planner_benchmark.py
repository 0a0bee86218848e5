"""The planner's benchmark: its solvers solve, and its gap tells right answers from wrong ones."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(
    0, str(Path(__file__).parents[2])
)  # the benchmarks are not part of the installed package

from benchmarks.studies.planner import SOLVERS, Cell, federation, gap, measure, on_simplex


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_gets_there_for_few_clients(solver):
    cell = Cell(20, False, solver)
    assert -1e-15 < gap(cell, SOLVERS[solver](federation(20, False), 5.0)) < 1e-8


def test_the_gap_of_a_wrong_answer_is_seen():
    given = federation(20, False)
    assert gap(Cell(20, False, "Headwater"), given.sizes) > 1e-3
    assert gap(Cell(20, True, "Headwater"), given.sizes) > 1e-3


def test_the_general_bound_has_the_same_answer_from_both_solvers():
    for solver in ("Headwater", "Clarabel"):
        assert abs(gap(Cell(20, True, solver), SOLVERS[solver](federation(20, True), 5.0))) < 1e-8


def test_projection_on_the_simplex():
    assert on_simplex(np.array([0.2, 0.3, 0.5])) == pytest.approx([0.2, 0.3, 0.5])
    assert on_simplex(np.array([2.0, 0.0, -1.0])).tolist() == [1.0, 0.0, 0.0]
    assert on_simplex(np.array([0.9, 0.5, -2.0])) == pytest.approx([0.7, 0.3, 0.0])


def test_a_measurement_in_a_process_of_its_own():
    cell = measure(Cell(20, False, "Headwater"), limit=30.0)
    assert cell.seconds is not None
    assert cell.gap == pytest.approx(0, abs=1e-14)
    assert "| Headwater " in cell.row()
