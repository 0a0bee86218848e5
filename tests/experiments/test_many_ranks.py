"""``headwater run`` on several ranks: the table of one process, printed and written once."""

from __future__ import annotations

import contextlib
import io
import json

import pytest
from ranks import together
from torch import distributed

import headwater as hw
from headwater.cli.main import app
from headwater.learning import testing

pytestmark = pytest.mark.skipif(not distributed.is_gloo_available(), reason="PyTorch without gloo")


def printed(folder, *more):
    """What the command prints."""
    words = ["run", "synthetic", "--rounds", "4", "--seeds", "1", "--json", "--out", str(folder)]
    choice = ["--strategies", "uniform,fresh", "--learning-rate", "0.1,0.3"]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        app([*words, *choice, *more], standalone_mode=False)
    return out.getvalue()


def outcomes(folder):
    lines = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    return {line["id"]: (line["accuracy"], line["loss"]) for line in lines if "accuracy" in line}


def test_a_table_on_two_ranks_is_that_of_one_process(tmp_path):
    printed(tmp_path / "one")

    def rank(number):  # each on a machine with a disk of its own
        return printed(tmp_path / str(number)), (tmp_path / str(number)).exists()

    (first, written), (second, other_written) = together(2, rank)
    assert json.loads(first)
    assert written
    assert second == ""
    assert not other_written
    two, one = outcomes(tmp_path / "0"), outcomes(tmp_path / "one")
    assert len(one) == 6  # two strategies with two rates each, then with the better one
    assert two.keys() == one.keys()
    for name, (accuracy, loss) in one.items():
        assert two[name] == (pytest.approx(accuracy), pytest.approx(loss, rel=1e-4))


def test_what_is_finished_is_not_done_again_by_any_rank(tmp_path):
    printed(tmp_path / "0")
    before = outcomes(tmp_path / "0")
    together(2, lambda number: printed(tmp_path / str(number)))
    assert outcomes(tmp_path / "0") == before


def test_a_refusal_of_the_first_rank_lets_the_others_go(tmp_path):
    printed(tmp_path / "0")

    def rank(number):
        try:
            printed(tmp_path / str(number), "--local-steps", "7")
        except hw.InputError as error:
            return str(error)
        return "let go"

    first, second = together(2, rank)
    assert "other settings" in first
    assert second == "let go"


def paper_table(folder):
    """A small table of the paper, as the command makes it; its finished runs."""
    words = ["paper", "table", "--dataset", "synthetic", "--historical", "0.2", "--quick", "--json"]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        app([*words, "--lines", "uniform,ours", "--out", str(folder)], standalone_mode=False)
    return out.getvalue()


def scores(folder):
    files = folder.rglob("*.jsonl")
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return {line["id"]: line["accuracy"] for line in lines if "accuracy" in line}


def test_a_table_of_the_paper_on_two_ranks_is_that_of_one_process(tmp_path):
    paper_table(tmp_path / "one")

    def rank(number):
        return paper_table(tmp_path / str(number)), (tmp_path / f"{number}-quick").exists()

    (first, written), (second, other_written) = together(2, rank)
    assert json.loads(first)
    assert (second, written, other_written) == ("", True, False)
    one, two = scores(tmp_path / "one-quick"), scores(tmp_path / "0-quick")
    assert len(one) == 2
    assert two == pytest.approx(one)


def test_only_the_first_rank_tests(tmp_path, monkeypatch):
    """The others are not asked how good the model is, and so need no test samples."""
    tested, real = [], testing.Tests.score
    monkeypatch.setattr(testing.Tests, "score", lambda *given: tested.append(0) or real(*given))

    def rank(number):
        printed(tmp_path / str(number))
        return len(tested)

    first, second = together(2, rank)
    assert first > 0
    assert second == 0
