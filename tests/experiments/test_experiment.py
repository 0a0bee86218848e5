"""Experiments: what is stored, what is refused, and that stopping and going on changes nothing."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from headwater.errors import InputError
from headwater.experiments.experiment import Experiment
from headwater.experiments.run_log import RunLog
from headwater.experiments.tasks.synthetic import Synthetic
from headwater.experiments.time_spent import TimeSpent
from headwater.experiments.training_run import CurvePoint, Outcome, Setup, TrainingRun
from headwater.learning import checkpoint
from headwater.learning.algorithm import DivergedError
from headwater.ledger.optimal import Optimal
from headwater.ledger.strategies import Share, Uniform

TASK = Synthetic(test_samples=20)
SETUP = Setup(0.2, 30, 2, None)
FINAL = TrainingRun("uniform", Uniform(), 0, 0.1, 30)


def make(folder: Path, setup: Setup = SETUP, task: Synthetic = TASK) -> Experiment:
    made = Experiment(task, setup, folder, RunLog(folder / "runs.jsonl"))
    made.open()
    return made


def content(folder: Path) -> dict[str, Any]:
    """All that a run has learned, but for its seconds; models by their numbers."""
    found: dict[str, Any] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".pt":
            found[name] = {k: v.tolist() for k, v in torch.load(path).items()}
        elif path.name == "runs.jsonl":
            outcomes = {line["id"]: line for line in RunLog(path).read("run")}
            seconds = ("seconds", "cpu_seconds")
            found[name] = {
                i: {k: v for k, v in line.items() if k not in seconds}
                for i, line in outcomes.items()
            }
        else:
            found[name] = path.read_bytes()
    return found


def test_a_finished_run_is_stored_with_its_curve_and_models_and_no_working_state(
    tmp_path: Path,
) -> None:
    own = make(tmp_path)
    assert own.outcomes() == {}
    outcome = own.train(FINAL)
    assert own.outcomes() == {own.identity(FINAL): outcome}
    assert [test.round for test in outcome.curve][-1] == 30
    assert outcome.curve[-1].score == outcome.score
    names = {p.name for p in own.working_folder(FINAL).iterdir()}
    assert {"model.pt", "average.pt"} <= names
    assert not names & {"state.npz", "spent.json"}


def test_a_tuning_run_leaves_nothing_but_its_outcome(tmp_path: Path) -> None:
    own = make(tmp_path)
    tuning = replace(FINAL, tuning=True)
    own.train(tuning)
    assert list(own.outcomes()) == [own.identity(tuning)]
    assert not own.working_folder(tuning).exists()


class Stop(BaseException):
    """What a kill is for the code that it hits."""


@pytest.mark.parametrize("at", [1, 13, 30])
def test_a_run_that_was_stopped_goes_on_and_ends_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    make(tmp_path / "whole").train(FINAL)
    monkeypatch.setattr(checkpoint, "_SECONDS", 0.0)

    def stop(rounds: int) -> None:
        if rounds == at:
            raise Stop

    with pytest.raises(Stop):
        make(tmp_path / "cut").train(FINAL, stop)
    again: list[int] = []
    make(tmp_path / "cut").train(FINAL, again.append)
    assert again[-1:] in ([30], [])
    assert not set(again) & set(range(1, at))  # what was done is not done again
    assert content(tmp_path / "cut") == content(tmp_path / "whole")


def test_a_disk_that_is_full_when_the_outcome_is_written_leaves_an_unfinished_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "whole").train(FINAL)
    full = make(tmp_path / "full")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "runs.jsonl")

    with monkeypatch.context() as patch:
        patch.setattr(RunLog, "append", fail)
        with pytest.raises(OSError, match="No space left"):
            full.train(FINAL)
    assert full.outcomes() == {}
    full.train(FINAL)
    assert content(tmp_path / "full") == content(tmp_path / "whole")


def test_a_folder_with_other_settings_is_refused_by_name_and_left_alone(tmp_path: Path) -> None:
    make(tmp_path)
    before = content(tmp_path)
    with pytest.raises(InputError, match=r"other settings \(rounds: 30 there, 31 now\)"):
        make(tmp_path, Setup(0.2, 31, 2, None))
    assert content(tmp_path) == before
    make(tmp_path)


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty and holds no run"):
        make(tmp_path)


def test_divergence_ends_a_final_run_and_scores_nothing_in_tuning(tmp_path: Path) -> None:
    own = make(tmp_path)
    final = TrainingRun("uniform", Uniform(), 0, 3e38, 30)
    with pytest.raises(DivergedError, match=r"uniform, seed 0, .*: the run diverged in round"):
        own.train(final)
    outcome = own.train(replace(final, tuning=True))
    assert outcome.score == 0
    assert outcome.diverged is not None
    assert own.identity(final) not in own.outcomes()


# ---------------------------------------------------------------- what a run's identity knows


@pytest.mark.parametrize(
    "other",
    [
        replace(FINAL, learning_rate=0.1 + 1e-8),
        replace(FINAL, seed=1),
        replace(FINAL, tuning=True),
        replace(FINAL, rounds=29),
        replace(FINAL, strategy=Share(0.2)),
    ],
)
def test_runs_that_differ_in_any_digit_are_different(tmp_path: Path, other: TrainingRun) -> None:
    own = make(tmp_path)
    assert own.identity(other) != own.identity(FINAL)


def test_the_same_label_with_another_ratio_is_another_run(tmp_path: Path) -> None:
    own = make(tmp_path)
    small, large = (TrainingRun("optimal", Optimal(r), 0, 0.1, 30) for r in (0.01, 100.0))
    first = own.train_all([small], processes=1)
    second = own.train_all([large], processes=1)
    shares = [o.historical_share for o in (*first.values(), *second.values())]
    assert shares[0] > 0.9
    assert shares[1] < 0.3


def test_other_data_another_task_and_other_versions_are_other_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = make(tmp_path / "a").identity(FINAL)
    assert make(tmp_path / "b", task=Synthetic(test_samples=21)).identity(FINAL) != own
    assert make(tmp_path / "c", task=Synthetic(test_samples=20, spread=0.2)).identity(FINAL) != own
    monkeypatch.setattr("headwater.experiments.experiment.versions", lambda: {"torch": "1.0"})
    assert make(tmp_path / "d").identity(FINAL) != own


def test_the_place_of_the_data_does_not_matter(tmp_path: Path) -> None:
    assert make(tmp_path / "a").identity(FINAL) == make(tmp_path / "b").identity(FINAL)


# ---------------------------------------------------------------- many runs


def test_runs_in_processes_give_the_bits_of_runs_one_after_the_other(tmp_path: Path) -> None:
    runs = [
        FINAL,
        TrainingRun("half", Share(0.5), 1, 0.03, 30),
        TrainingRun("half", Share(0.5), 1, 0.1, 30, tuning=True),
    ]
    one, two = make(tmp_path / "one"), make(tmp_path / "two")
    for run in runs:
        one.train(run)
    seen: list[int] = []
    found = two.train_all(
        runs, lambda _, done: seen.extend(place for place, _ in done), processes=2
    )
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert sorted(seen) == [0, 1, 2]
    again = two.train_all(runs)
    assert again == found  # nothing is run again, seconds included


def test_a_run_that_fails_stops_the_others_at_once(tmp_path: Path) -> None:
    own = make(tmp_path, Setup(0.2, 1_000_000, 2, None))  # would take hours
    bad, good = (
        TrainingRun(n, Uniform(), 0, r, 1_000_000) for n, r in (("bad", 3e38), ("ok", 0.1))
    )
    with pytest.raises(DivergedError, match="bad, seed 0"):
        own.train_all([good, bad], processes=2)
    assert own.outcomes() == {}


# ---------------------------------------------------------------- outcomes and times


def test_the_late_score_is_the_mean_of_the_last_tenth_of_the_tests() -> None:
    curve = tuple(CurvePoint(round, round / 100, 1.0) for round in range(1, 21))
    outcome = Outcome(0.2, 1.0, 0.2, 0.2, 10.0, 0.1, 5, 1.0, 1.0, "here", curve=curve)
    assert outcome.late_score == pytest.approx((0.19 + 0.20) / 2)
    assert replace(outcome, curve=()).late_score == 0.2
    assert replace(outcome, curve=curve[:5]).late_score == pytest.approx(0.05)


def test_an_outcome_is_stored_as_plain_json_and_comes_back() -> None:
    curve = (CurvePoint(1, 0.5, None),)
    diverged = Outcome(0.0, None, 0.0, 0.0, 0.0, 0.0, 0, 1.0, 1.0, "x", "it diverged", curve)
    text = json.dumps(diverged.as_json(), allow_nan=False)
    assert Outcome.of_json(json.loads(text)) == diverged
    with pytest.raises(InputError, match="lacks something"):
        Outcome.of_json({"accuracy": 0.5})


def test_time_spent_adds_up_over_its_starts_and_survives_a_damaged_note(tmp_path: Path) -> None:
    file = tmp_path / "spent.json"
    file.write_text("[100.0, 50.0]")
    spent = TimeSpent(file)
    assert spent.seconds >= 100
    assert spent.cpu_seconds >= 50
    spent.note()
    wall, cpu = json.loads(file.read_text())
    assert wall >= 100
    assert cpu >= 50
    file.write_text("[1")
    assert TimeSpent(file).seconds < 1
