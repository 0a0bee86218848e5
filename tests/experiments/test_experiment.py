"""Experiments: what is stored, what is refused, and that stopping and going on changes nothing."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from headwater import files
from headwater.errors import InputError
from headwater.experiments import experiment
from headwater.experiments.cells import Cell, Result, Setup
from headwater.experiments.experiment import Experiment
from headwater.experiments.parallel import alone, run_cells
from headwater.experiments.stopwatch import Stopwatch
from headwater.experiments.summary import Interval, Row, best_rate
from headwater.experiments.tasks.synthetic import Synthetic
from headwater.learning import checkpoint
from headwater.learning.algorithm import DivergedError, Record
from headwater.ledger.strategies import Share, Uniform

TASK = Synthetic(test_samples=20)
SETUP = Setup(0.2, 30, 2, None)
FINAL = Cell("uniform", Uniform(), 0, 0.1, False)


def make(folder: Path, kept: Path | None = None) -> Experiment:
    made = Experiment(TASK, SETUP, folder, kept)
    made.open()
    return made


def content(folder: Path) -> dict[str, Any]:
    """All files of a run but for its seconds; models by their numbers."""
    found: dict[str, Any] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".pt":
            found[name] = {k: v.tolist() for k, v in torch.load(path).items()}
        elif path.name == "result.json":
            result = json.loads(path.read_text())
            found[name] = {k: v for k, v in result.items() if "seconds" not in k}
        else:
            found[name] = path.read_bytes()
    return found


def test_a_finished_cell_is_stored_with_its_rounds_and_models_and_no_working_state(
    tmp_path: Path,
) -> None:
    own = make(tmp_path)
    assert own.result(FINAL) is None
    result = own.run(FINAL)
    assert own.result(FINAL) == result
    records = own.records(FINAL)
    assert [r.round for r in records] == list(range(1, 31))
    assert records[-1].accuracy == result.accuracy
    names = {p.name for p in (tmp_path / "cells" / FINAL.name).iterdir()}
    assert names == {"rounds.jsonl", "model.pt", "average.pt", "result.json"}


def test_results_that_are_kept_apart_are_small_and_the_same(tmp_path: Path) -> None:
    one, two = make(tmp_path / "one"), make(tmp_path / "two", tmp_path / "kept")
    assert one.run(FINAL).accuracy == two.run(FINAL).accuracy
    assert [r for r in one.records(FINAL) if r.accuracy is not None] == two.records(FINAL)
    kept = {p.name for p in (tmp_path / "kept").rglob("*") if p.is_file()}
    assert kept == {"settings.json", "result.json", "rounds.jsonl"}
    assert two.result(FINAL) is not None


class Stop(BaseException):
    """What a kill is for the code that it hits."""


@pytest.mark.parametrize("at", [1, 13, 30])
def test_a_cell_that_was_stopped_goes_on_and_ends_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    make(tmp_path / "whole").run(FINAL)
    monkeypatch.setattr(checkpoint, "_SECONDS", 0.0)

    def stop(record: Record) -> None:
        if record.round == at:
            raise Stop

    cut = make(tmp_path / "cut")
    with pytest.raises(Stop):
        cut.run(FINAL, stop)
    again: list[int] = []
    make(tmp_path / "cut").run(FINAL, lambda record: again.append(record.round))
    assert again == list(range(at, 31))  # the round that was cut short, and what follows
    assert content(tmp_path / "cut") == content(tmp_path / "whole")


def test_a_disk_that_is_full_when_the_result_is_written_leaves_an_unfinished_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "whole").run(FINAL)
    full = make(tmp_path / "full")
    write = files.replace

    def fail(path: Path, data: bytes) -> None:
        if path.name == "result.json":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(experiment, "replace", fail)
        with pytest.raises(OSError, match="No space left"):
            full.run(FINAL)
    assert full.result(FINAL) is None
    full.run(FINAL)
    assert content(tmp_path / "full") == content(tmp_path / "whole")


def test_a_folder_with_other_settings_is_refused_by_name_and_left_alone(tmp_path: Path) -> None:
    make(tmp_path)
    before = content(tmp_path)
    with pytest.raises(InputError, match=r"other settings \(rounds: 30 there, 31 now\).*--out"):
        Experiment(TASK, Setup(0.2, 31, 2, None), tmp_path).open()
    assert content(tmp_path) == before
    make(tmp_path)


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty and holds no run"):
        make(tmp_path)
    with pytest.raises(InputError, match="choose another folder with --results"):
        make(tmp_path / "new", tmp_path)


@pytest.mark.parametrize("broken", ["{", "[1]", "\xff"])
def test_settings_that_cannot_be_read_are_named(tmp_path: Path, broken: str) -> None:
    (tmp_path / "settings.json").write_bytes(broken.encode("latin-1"))
    with pytest.raises(InputError, match=r"settings\.json: "):
        make(tmp_path)


def test_divergence_ends_a_final_cell_and_scores_nothing_in_tuning(tmp_path: Path) -> None:
    own = Experiment(TASK, SETUP, tmp_path)
    final = Cell("uniform", Uniform(), 0, 3e38, False)
    with pytest.raises(DivergedError, match="uniform, seed 0: the run diverged in round"):
        own.run(final)
    result = own.run(Cell("uniform", Uniform(), 0, 3e38, True))
    assert result.accuracy == 0
    assert result.diverged is not None
    assert own.result(final) is None


def test_cells_in_processes_give_the_bits_of_cells_one_after_the_other(tmp_path: Path) -> None:
    cells = [
        FINAL,
        Cell("half", Share(0.5), 1, 0.03, False),
        Cell("half", Share(0.5), 1, 0.1, True),
    ]
    one, two = make(tmp_path / "one"), make(tmp_path / "two")
    for cell in cells:
        one.run(cell)
    seen: list[str] = []
    results = run_cells(
        two, cells, lambda _, done: seen.extend(cell.name for cell, _ in done), processes=2
    )
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert [r.accuracy for r in results] == [r.accuracy for c in cells if (r := one.result(c))]
    assert sorted(seen) == sorted(cell.name for cell in cells)
    assert run_cells(two, cells) == results  # nothing is run again, seconds included


def test_a_cell_that_fails_stops_the_others_at_once(tmp_path: Path) -> None:
    own = Experiment(TASK, Setup(0.2, 1_000_000, 2, None), tmp_path)  # would take hours
    bad, good = Cell("bad", Uniform(), 0, 3e38, False), Cell("good", Uniform(), 0, 0.1, False)
    with pytest.raises(DivergedError, match="bad, seed 0"):
        run_cells(own, [good, bad], processes=2)
    assert own.result(good) is None


def test_only_one_run_at_a_time_in_a_folder(tmp_path: Path) -> None:
    refused = pytest.raises(InputError, match="another run is at work")
    with alone(tmp_path / "a"), alone(tmp_path / "b"), refused, alone(tmp_path / "a"):
        pass
    with alone(tmp_path / "a"):
        pass


def result(accuracy: float, loss: float = 1.0) -> Result:
    return Result(accuracy, loss, accuracy, 0.2, 10.0, 0.1, 5, 1.0, 1.0, "here")


def test_the_best_rate_has_the_best_mean_accuracy_then_the_smallest_loss() -> None:
    def tuned(rate: float, seed: int, accuracy: float, loss: float) -> tuple[Cell, Result]:
        return Cell("u", Uniform(), seed, rate, True), result(accuracy, loss)

    assert (
        best_rate(
            [
                tuned(0.1, 0, 0.9, 1),
                tuned(0.1, 1, 0.5, 1),
                tuned(0.01, 0, 0.8, 1),
                tuned(0.01, 1, 0.7, 1),
            ]
        )
        == 0.01
    )
    assert best_rate([tuned(0.1, 0, 0.5, 2.0), tuned(0.01, 0, 0.5, 1.0)]) == 0.01
    with pytest.raises(DivergedError, match="every learning rate"):
        best_rate([tuned(0.1, 0, 0.0, np.inf)])


def test_intervals_are_students() -> None:
    values = [0.61, 0.64, 0.6]
    low, high = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
    found = Interval.of(values)
    assert found.ci95 is not None
    assert (found.mean - found.ci95, found.mean + found.ci95) == pytest.approx((low, high))
    assert str(Interval(0.6123, None)) == "61.2"
    assert str(Row.of("u", 0.1, [result(0.5), result(0.5)]).accuracy) == "50.0 ± 0.0"


def test_a_stopwatch_adds_up_over_its_starts(tmp_path: Path) -> None:
    (tmp_path / "spent.json").write_text("[100.0, 50.0]")
    watch = Stopwatch(tmp_path / "spent.json")
    assert watch.seconds >= 100
    assert watch.cpu_seconds >= 50
    watch.note()
    wall, cpu = json.loads((tmp_path / "spent.json").read_text())
    assert wall >= 100
    assert cpu >= 50
