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
from headwater.experiments.data.air import load_air
from headwater.experiments.tasks.air import features
from headwater.experiments.tasks.find import find_task
from headwater.experiments.tasks.own_table import OwnTable
from headwater.experiments.tasks.scaling import outlier
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


@pytest.mark.parametrize("wild", [1e8, 1e30, -1e300])
@pytest.mark.parametrize("column", ["a", "y"])
def test_one_value_that_hides_all_others_is_named_with_its_line(
    tmp_path: Path, wild: float, column: str
) -> None:
    rows = table(kind="fractions")
    rows.loc[7, column] = wild
    rows.to_csv(tmp_path / "pumps.csv", index=False)
    with pytest.raises(InputError, match=rf"pumps.csv, column '{column}', line 9: "):
        OwnTable(tmp_path / "pumps.csv", **COLUMNS).split(0.3, 20, 0)


@pytest.mark.parametrize("seed", range(20))
def test_heavy_tails_rare_events_and_two_scales_are_no_outliers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    quiet, wet = np.abs(rng.normal(0, 1e-6, 2000)), rng.exponential(3.0, 2000)
    for values in (
        rng.lognormal(sigma=3, size=5000),
        rng.standard_cauchy(5000),
        np.r_[np.zeros(4999), 1.0],
        np.where(rng.random(2000) < 0.6, quiet, wet),
        np.full(50, 7.0),
    ):
        assert outlier(values) is None


def test_real_measurements_are_no_outliers() -> None:
    air = load_air()
    columns = [air.pm25, air.rain, air.wind_speed, *np.moveaxis(features(air), -1, 0)]
    assert [outlier(column[np.isfinite(column)]) for column in columns] == [None] * len(columns)


@pytest.mark.parametrize("values", [(1, 2), (-1, 1), (0, 100_000_000), (0, 2)])
def test_whole_numbers_that_stand_for_classes_are_numbered_from_0(
    values: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    rows = table(kind="numbers")
    task = OwnTable(rows.assign(y=rows["y"].map(dict(enumerate(values)))), **COLUMNS)
    assert task.outputs == 2
    assert task.stream.classes == values
    torch.testing.assert_close(task.stream.y, OwnTable(rows, **COLUMNS).stream.y)
    assert f"labels {values[0]}, {values[1]} of column 'y' are the classes 0 to 1" in caplog.text


def test_labels_that_are_no_classes_are_named() -> None:
    with pytest.raises(InputError, match=r"column 'y' has one class only, 3"):
        _ = OwnTable(table().assign(y=3), **COLUMNS).stream
    with pytest.raises(InputError, match=r"column 'y': .* there are 1,200, such as 1199"):
        _ = OwnTable(table(1200).assign(y=range(1200)), **COLUMNS).stream


@pytest.mark.parametrize("rows", [1, 2])
def test_a_table_of_very_few_rows_is_told_what_rows_are_needed_for(rows: int) -> None:
    few = OwnTable(table(kind="fractions")[:rows], **COLUMNS)
    with pytest.raises(InputError, match=r"rows with . different times are too few"):
        few.split(0.2, 5, 0)


def test_a_model_is_named_with_a_colon(tmp_path: Path) -> None:
    for text in ("Net", ":Net", "my_pumps:"):
        with pytest.raises(InputError, match=f"model '{text}': name it as module:Class"):
            find_task("pumps.csv", client="device", time="at", label="y", net=text)


def test_features_are_named_once() -> None:
    with pytest.raises(InputError, match=r"features: 'a' is there twice"):
        _ = OwnTable(table(), **COLUMNS, features=("a", "b", "a")).stream


def test_what_is_no_task_is_told_what_a_task_needs() -> None:
    with pytest.raises(InputError, match=r"task 'os:getcwd': it has no name, .*a task needs"):
        find_task("os:getcwd")


def test_a_first_time_long_before_all_others_is_named() -> None:
    """One clock that was not set would leave nearly all rounds without a sample."""
    rows = table()
    rows.loc[0, "at"] = pd.Timestamp("1970-01-01")
    wrong = OwnTable(rows, **COLUMNS)
    # By lot a client is historical or not; as a historical one's, the time decides nothing.
    with pytest.raises(InputError, match=r"column 'at': the first time, 1970-01-01.*historical_be"):
        [wrong.split(0.3, 20, seed) for seed in range(8)]
    OwnTable(table(), **COLUMNS).split(0.3, 20, 0)
