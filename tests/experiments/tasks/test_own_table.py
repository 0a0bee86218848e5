"""A table of one's own as a task, from Python and from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.errors import InputError
from headwater.experiments.tasks.find import find_task
from headwater.experiments.tasks.own_table import OwnTable
from headwater.learning.losses import cross_entropy, squared_error

COLUMNS = {"client": "device", "time": "at", "label": "y"}


def table(rows: int = 600, kind: str = "words") -> pd.DataFrame:
    rng = np.random.default_rng(0)
    found = pd.DataFrame(rng.normal(3, 2, size=(rows, 3)), columns=["a", "b", "c"])
    gap = found["a"] - found["b"]
    labels = {"words": np.where(gap > 0, "up", "down"), "fractions": gap, "numbers": gap > 0}
    found["y"] = labels[kind].astype(int) if kind == "numbers" else labels[kind]
    found["device"] = [f"d{m}" for m in rng.integers(0, 6, rows)]
    found["at"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(rows), "h")
    return found


@pytest.mark.parametrize(
    ("kind", "outputs", "loss"),
    [("words", 2, cross_entropy), ("numbers", 2, cross_entropy), ("fractions", 1, squared_error)],
)
def test_the_labels_decide_how_it_is_learned(kind: str, outputs: int, loss: object) -> None:
    task = OwnTable(table(kind=kind), **COLUMNS)
    assert task.outputs == outputs
    assert task.defaults.loss is loss
    assert task.model(0)(torch.zeros(5, 3)).shape == (5, outputs)


def test_time_goes_one_way_and_scales_come_from_history() -> None:
    split = OwnTable(table(), **COLUMNS, capacity=7).split(0.3, 20, 0)
    whole = 600
    for federation, learned, tested in ((split.final, 480, 120), (split.tuning, 384, 96)):
        rows, test = federation.train.rows, federation.test
        assert rows is not None
        assert test is not None
        assert abs(len(rows) - learned) <= 1
        assert abs(test.counts.sum() - tested) <= 1
        holdings = federation.holdings(20)
        assert holdings.historical.sum() == 2
        assert holdings.enter.max() == 20
        held = np.array([holdings.held(t) for t in range(1, 21)])
        for client in np.flatnonzero(~holdings.historical):
            assert held[:, holdings.client == client].sum(axis=1).max() <= 7
        mine = torch.from_numpy(rows[np.repeat(holdings.historical, federation.train.counts)])
        torch.testing.assert_close(
            federation.train.x[mine].mean(0), torch.zeros(3), atol=1e-5, rtol=0
        )
    assert len(split.final.train.x) == whole


def test_when_history_ends_may_be_told() -> None:
    rows = table()
    rows = rows[~rows["device"].isin(["d0", "d1"]) | (rows["at"] < "2026-01-08")]
    task = OwnTable(rows, **COLUMNS, historical_before="2026-01-08")
    holdings = task.split(0.2, 10, 0).final.holdings(10)
    assert holdings.historical.tolist() == [True, True, False, False, False, False]
    with pytest.raises(InputError, match="historical_before: no client has all its rows before"):
        OwnTable(table(), **COLUMNS, historical_before="2026-01-02").split(0.2, 10, 0)


MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.layer = torch.nn.Linear(features, outputs)

    def forward(self, x):
        return self.layer(x)
"""


def test_from_a_file_to_a_table_a_picture_and_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table(300).to_parquet(tmp_path / "pumps.parquet")
    (tmp_path / "my_pumps.py").write_text(MODEL)
    words = "run pumps.parquet --client device --time at --label y --model my_pumps:Net"
    options = "--rounds 10 --seeds 1 --learning-rate 0.1 --strategies uniform,historical --cores 1"
    answer = CliRunner().invoke(app, [*words.split(), *options.split(), "--json"])
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    assert found["task"] == "pumps"
    assert [row["strategy"] for row in found["rows"]] == ["uniform", "historical"]
    assert found["rows"][0]["accuracy"]["mean"] > 0.6
    assert (tmp_path / "runs" / "pumps-20" / "accuracy.png").exists()


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    table(50).to_csv(tmp_path / "pumps.csv", index=False)
    with pytest.raises(InputError, match=r"pumps.csv: client, time and label .* time is missing"):
        find_task(str(tmp_path / "pumps.csv"), client="device", label="y")
    with pytest.raises(InputError, match="client: 'device' is for tables, not for task 'air'"):
        find_task("air", client="device")
