"""One rate for all lines, and tables that are put together from what is stored."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from headwater.errors import InputError
from headwater.experiments.comparison import Comparison, Entrant
from headwater.experiments.experiment import Experiment
from headwater.experiments.over_seeds import Interval
from headwater.experiments.run_log import RunLog
from headwater.experiments.table import Contents, DataCounts, Planned, Table
from headwater.experiments.tasks.synthetic import Synthetic
from headwater.experiments.training_run import Outcome, Setup
from headwater.experiments.tuning import Tuning, choose_rate
from headwater.ledger.strategies import Share, Uniform


def outcome(accuracy: float, loss: float | None = 1.0) -> Outcome:
    return Outcome(accuracy, loss, accuracy, 0.2, 10.0, 0.1, 5, 1.0, 1.0, "here")


def attempts(best: float, tried: list[float]) -> object:
    """Rates are the worse the farther they are from the best one."""

    def attempt(rates: Sequence[float]) -> dict[float, list[Outcome]]:
        tried.extend(rates)
        return {r: [outcome(0.9 - 0.1 * abs(np.log10(r / best)))] for r in rates}

    return attempt


@pytest.mark.parametrize("best", [1e-5, 0.01, 0.1, 30.0])
def test_the_grid_grows_until_the_best_is_inside(best: float) -> None:
    tried: list[float] = []
    tuning = Tuning((0.001, 0.01, 0.1), 10, 1, extend=True)
    rate, rates = choose_rate(tuning, attempts(best, tried))  # type: ignore[arg-type]
    assert min(rates) < rate < max(rates)
    assert abs(np.log10(rate / best)) <= 0.5 + 1e-9
    assert sorted(tried) == list(rates)
    assert len(tried) == len(set(tried))


def test_rates_that_a_user_has_listed_are_all_there_is() -> None:
    tried: list[float] = []
    rate, _ = choose_rate(Tuning((0.01, 0.1), 10, 1), attempts(30.0, tried))  # type: ignore[arg-type]
    assert (rate, tried) == (0.1, [0.01, 0.1])


def test_the_mean_over_all_lines_decides_and_then_the_loss() -> None:
    found = {0.1: [outcome(0.9), outcome(0.5)], 0.01: [outcome(0.8), outcome(0.7)]}
    assert choose_rate(Tuning((0.01, 0.1), 1, 1), lambda _: found)[0] == 0.01
    equal = {0.1: [outcome(0.5, 2.0)], 0.01: [outcome(0.5, 1.0)]}
    assert choose_rate(Tuning((0.01, 0.1), 1, 1), lambda _: equal)[0] == 0.01
    with pytest.raises(InputError, match="every learning rate"):
        choose_rate(
            Tuning((0.01, 0.1), 1, 1), lambda rates: {r: [outcome(0.0, None)] for r in rates}
        )


def test_where_less_is_better_the_smallest_error_wins_and_never_a_run_that_diverged() -> None:
    found = {
        0.1: [replace(outcome(0.4), measure="mae")],
        0.03: [replace(outcome(0.3), measure="mae")],
        1.0: [replace(outcome(0.0, None), measure="mae", diverged="in round 3")],
    }
    assert choose_rate(Tuning((0.03, 0.1, 1.0), 1, 1), lambda _: found)[0] == 0.03


def test_scores_are_stored_by_what_they_are() -> None:
    error = replace(outcome(0.4), measure="mae")
    stored = error.as_json()
    assert (stored["mae"], stored["average_mae"]) == (0.4, 0.4)
    assert "accuracy" not in stored
    assert Outcome.of_json(stored) == error
    older = {k: v for k, v in outcome(0.7).as_json().items() if k != "measure"}
    assert Outcome.of_json(older) == outcome(0.7)


def compare(folder: Path, lines: dict[str, Entrant], seeds: int, adds: bool = True) -> Table:
    task = Synthetic(test_samples=20)
    experiment = Experiment(task, Setup(0.2, 8, 1, None), folder, RunLog(folder / "runs.jsonl"))
    experiment.open()
    tuning = Tuning((0.01, 0.1), 8, 1)
    comparison = Comparison(experiment, [lines] * seeds, tuning, "typed", adds)
    return comparison.run(lambda *_: nullcontext(lambda *_: None), processes=1)


UNIFORM = {"Uniform": Entrant("uniform", Uniform(), "all alike")}
HALF = {"Half": Entrant("share-0.5", Share(0.5), "one half")}


def test_all_lines_have_one_rate_and_a_table_keeps_it_when_lines_and_seeds_are_added(
    tmp_path: Path,
) -> None:
    first = compare(tmp_path, UNIFORM, 1)
    both = compare(tmp_path, {**UNIFORM, **HALF}, 2)
    assert len({line.learning_rate for line in both.lines.values()}) == 1
    rate = first.lines["Uniform"].learning_rate
    assert both.lines["Half"].learning_rate == rate
    assert sorted(both.lines["Uniform"].outcomes) == [0, 1]
    assert both.lines["Uniform"].outcomes[0] == first.lines["Uniform"].outcomes[0]
    only = compare(tmp_path, HALF, 1)
    assert list(only.lines) == ["Uniform", "Half"]  # what was there stays
    assert list(compare(tmp_path, HALF, 1, adds=False).lines) == ["Half"]


def test_the_same_comparison_adds_nothing_to_the_log(tmp_path: Path) -> None:
    compare(tmp_path, UNIFORM, 1)
    before = (tmp_path / "runs.jsonl").read_bytes()
    compare(tmp_path, UNIFORM, 1)
    assert (tmp_path / "runs.jsonl").read_bytes() == before


def contents(
    lines: dict[str, dict[int, str]], rate: float = 0.1, grid: tuple[float, ...] = (0.1, 1.0)
) -> Contents:
    planned = {name: Planned("about", rate, runs) for name, runs in lines.items()}
    return Contents(Tuning(grid, 5, 1), grid, DataCounts(True, 2, 1, 8, 4, 4), "", planned)


def test_contents_keep_what_other_commands_have_found() -> None:
    def runs(found: Contents) -> dict[str, dict[int, str]]:
        return {name: dict(line.runs) for name, line in found.lines.items()}

    first = contents({"Ours": {0: "a"}, "Fresh": {0: "f"}})
    second = contents({"Ours": {1: "b"}}).added_to(first)
    assert runs(second) == {"Ours": {0: "a", 1: "b"}, "Fresh": {0: "f"}}
    other_rate = contents({"Ours": {1: "c"}}, rate=1.0).added_to(second)
    assert runs(other_rate) == {"Ours": {1: "c"}, "Fresh": {0: "f"}}
    tuned_otherwise = contents({"Ours": {0: "d"}}, grid=(0.1,)).added_to(other_rate)
    assert runs(tuned_otherwise) == {"Ours": {0: "d"}}


def test_the_last_contents_count_wherever_their_line_stands(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "runs.jsonl")
    for name in ("a", "b"):
        contents({"Ours": {0: name}}).save(log)
    rows = log.file.read_bytes().splitlines(keepends=True)
    log.file.write_bytes(rows[1] + rows[0])  # as if somebody had sorted the file
    found = Contents.load(log)
    assert found is not None
    assert found.lines["Ours"].runs == {0: "b"}


def test_intervals_are_students() -> None:
    values = [0.61, 0.64, 0.6]
    low, high = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
    found = Interval.of(values)
    assert found.ci95 is not None
    assert (found.mean - found.ci95, found.mean + found.ci95) == pytest.approx((low, high))
    assert str(Interval(0.6123, None)) == "61.2"
    assert str(Interval.of([0.5, 0.5])) == "50.0 ± 0.0"


def test_stored_tables_are_read_without_pytorch() -> None:
    code = (
        "import sys, headwater.report.overview, headwater.report.card; "
        "assert 'torch' not in sys.modules, 'torch'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
