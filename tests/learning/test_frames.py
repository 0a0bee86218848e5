"""Tables of timestamped rows: the same federation from every library, and errors that help."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

import headwater as hw
from headwater.errors import InputError

from_frame = hw.Federation.from_frame
COLUMNS = {"client": "device", "time": "at", "label": "y"}


def frame() -> pd.DataFrame:
    """An archive that ends in 2025, and two streams with a gap and a burst."""
    rows = [
        ("archive", "2025-12-30 10:00", 0.1, 1, "cold"),
        ("archive", "2025-12-31 23:59", 0.2, 2, "warm"),
        ("pump", "2025-12-31 22:00", 0.3, 3, "cold"),
        ("pump", "2026-01-01 00:10", 0.4, 4, "warm"),
        ("pump", "2026-01-01 00:50", 0.5, 5, "warm"),
        ("valve", "2026-01-01 03:00", 0.6, 6, "cold"),
        ("pump", "2026-01-01 05:20", 0.7, 7, "cold"),
        ("valve", "2026-01-01 05:59", 0.8, 8, "warm"),
    ]
    found = pd.DataFrame(rows, columns=["device", "at", "a", "b", "y"])
    found["at"] = pd.to_datetime(found["at"])
    return found


def csv(folder: Path) -> Path:
    frame().to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def parquet_file(folder: Path) -> Path:
    parquet.write_table(pa.Table.from_pandas(frame()), folder / "rows.parquet")
    return folder / "rows.parquet"


TABLES: dict[str, Callable[[Path], Any]] = {
    "pandas": lambda _: frame(),
    "pandas categories": lambda _: frame().astype({"device": "category", "y": "category"}),
    "pandas nullable": lambda _: frame().convert_dtypes(),
    "pandas text times": lambda _: frame().astype({"at": str}),
    "pandas with a zone": lambda _: frame().assign(at=frame()["at"].dt.tz_localize("UTC")),
    "polars": lambda _: pl.from_pandas(frame()),
    "polars lazy": lambda _: pl.from_pandas(frame()).lazy(),
    "polars with a zone": lambda _: pl.from_pandas(frame()).with_columns(
        pl.col("at").dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Paris")
    ),
    "pyarrow": lambda _: pa.Table.from_pandas(frame()),
    "mapping": lambda _: {name: frame()[name].to_numpy() for name in frame()},
    "csv": csv,
    "csv as text": lambda folder: str(csv(folder)),
    "parquet": parquet_file,
}


@pytest.mark.parametrize("kind", TABLES)
def test_every_table_gives_the_federation_that_one_works_out_by_hand(
    kind: str, tmp_path: Path
) -> None:
    found = from_frame(
        TABLES[kind](tmp_path), **COLUMNS, memory=hw.Fifo(2), historical_before="2026-01-01"
    )
    assert found.clients == ("archive", "pump", "valve")
    assert found.classes == ("cold", "warm")
    assert found.features == ("a", "b")
    assert found.rounds == 6
    assert str(found.begin) == "2026-01-01T00:00:00.000000"
    assert found.width == np.timedelta64(1, "h")
    assert found.train.counts.tolist() == [2, 4, 2]
    rows = found.train.row_tensor
    assert found.train.y[rows].tolist() == [0, 1, 0, 1, 1, 0, 0, 1]
    np.testing.assert_allclose(found.train.x[rows][:, 1], [1, 2, 3, 4, 5, 7, 6, 8])
    holdings = found.holdings(found.rounds)
    assert holdings.historical.tolist() == [True, False, False]
    # The pump's first row is older than round 1 and is pushed out in it: it holds two.
    assert holdings.enter.tolist() == [1, 1, 1, 1, 1, 6, 4, 6]
    assert holdings.leave.tolist() == [7, 7, 1, 6, 7, 7, 7, 7]


def test_rounds_begin_at_the_full_hour_and_gaps_are_empty_rounds() -> None:
    found = from_frame(frame()[frame()["device"] != "archive"], **COLUMNS, round="30min")
    assert str(found.begin) == "2025-12-31T22:00:00.000000"
    holdings = found.holdings(found.rounds)
    assert holdings.enter.tolist() == [1, 5, 6, 15, 11, 16]
    assert found.rounds == 16


@pytest.mark.parametrize(
    ("test", "learned"), [(0.25, [2, 3, 1]), ("2026-01-01 05:00", [2, 3, 1]), (None, [2, 4, 2])]
)
def test_the_last_part_of_the_time_is_for_testing(test: Any, learned: list[int]) -> None:
    found = from_frame(frame(), **COLUMNS, historical_before="2026-01-01", test=test)
    assert found.train.counts.tolist() == learned
    if test is None:
        assert found.test is None
    else:
        assert found.test is not None
        assert found.test.counts.tolist() == [0, 1, 1]
        assert found.test.x[found.test.row_tensor][:, 1].tolist() == [7, 8]


def test_clients_that_come_only_after_the_cut_are_left_out_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = from_frame(frame(), **COLUMNS, test="2026-01-01 00:30")
    assert found.clients == ("archive", "pump")
    assert caplog.text.count("only rows to test, are left out (1): 'valve'") == 1
    assert found.test is not None
    assert found.test.counts.tolist() == [0, 2]
    rows = found.train.row_tensor
    assert found.train.x[rows][:, 1].tolist() == [1, 2, 3, 4]


def test_historical_clients_by_name() -> None:
    found = from_frame(frame(), **COLUMNS, historical=["valve"], memory=hw.Fifo(1))
    assert found.holdings(found.rounds).historical.tolist() == [False, False, True]
    with pytest.raises(InputError, match="no client 'tap'; there are: 'archive', 'pump'"):
        from_frame(frame(), **COLUMNS, historical=["tap"])


def test_times_and_labels_may_be_numbers() -> None:
    table = {
        "device": [7, 3, 7],
        "at": [0.5, 1.0, 9.0],
        "x": np.float32([1, 2, 3]),
        "y": [0.1, 0.2, 0.3],
    }
    found = from_frame(table, **COLUMNS, round=2, historical_before=1.5)
    assert found.clients == (3, 7)
    assert found.classes == ()
    assert found.train.y.dtype == torch.float32
    assert found.train.x.dtype == torch.float32
    assert found.holdings(found.rounds).enter.tolist() == [1, 1, 4]
    assert (found.begin, found.width) == (1.5, 2.0)


def changed(column: str, row: int, value: object) -> pd.DataFrame:
    found = frame().astype(object)
    found.loc[row, column] = value
    return found


@pytest.mark.parametrize(
    ("table", "settings", "words"),
    [
        (frame(), {"client": "phone"}, "client: frame has no column 'phone'; it has: device, at"),
        (frame(), {"features": ["c"]}, "features: frame has no column 'c'"),
        (frame(), {"features": ["y"]}, "'y' is the label; leave it out"),
        (frame(), {"label": "a", "features": None}, "column 'y', row 0: 'cold' is not a number"),
        (changed("b", 4, np.nan), {}, "column 'b', row 4: nan, as in 1 of 8 rows; drop"),
        (changed("a", 3, "much"), {}, "column 'a', row 3: 'much' is not a number"),
        (changed("device", 2, None), {}, "column 'device', row 2: missing, as in 1 of 8 rows"),
        (changed("y", 5, None), {}, "column 'y', row 5: missing"),
        (changed("at", 6, "Tuesday"), {}, "column 'at', row 6: 'Tuesday' is not a time; write"),
        (changed("at", 6, None), {}, "column 'at', row 6: no time, as in 1 of 8"),
        (
            frame()[::-1],
            {},
            "column 'at', row 2: 2026-01-01.*after a later time of device 'valve'; sort",
        ),
        (frame()[:0], {}, "it has no rows"),
        (frame(), {"round": "an hour"}, "round: a time span such as '30s'.*'an hour'"),
        (frame(), {"round": 3}, "round: a time span"),
        (frame(), {"test": "2027-01-01"}, "test: '2027-01-01' leaves no rows"),
        (frame(), {"test": "soon"}, "test: a moment such as .*'soon'"),
        (frame(), {"historical_before": 7}, "historical_before: a moment"),
        ([1, 2], {}, "a pandas, Polars or PyArrow table.*got a list"),
        ("rows.xlsx", {}, "rows.xlsx: a .csv, .csv.gz or .parquet file"),
        ("nothing.csv", {}, "nothing.csv: there is no such file"),
    ],
)
def test_errors_name_column_and_row_and_say_how_to_mend_it(
    table: Any, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        from_frame(table, **COLUMNS | settings)


def test_in_a_csv_file_the_line_is_named(tmp_path: Path) -> None:
    path = csv(tmp_path)
    path.write_text(path.read_text().replace("0.4", ""))
    with pytest.raises(InputError, match=r"rows.csv, column 'a', line 5: nan"):
        from_frame(path, **COLUMNS)
    path.write_bytes(b"device,at,a\n1,2\n")
    with pytest.raises(InputError, match=r"rows.csv: cannot be read"):
        from_frame(path, **COLUMNS)


def test_a_run_on_it_learns() -> None:
    rng = np.random.default_rng(0)
    n = 1200
    table = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    table["y"] = np.where(table["a"] > table["b"], "up", "down")
    table["device"] = rng.integers(0, 6, n)
    table["at"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(n), "min")
    found = from_frame(table, **COLUMNS, memory=hw.Fifo(20), historical=[0, 1], test=0.2)
    run = hw.simulate(torch.nn.Linear(3, 2), found, hw.Uniform(), found.rounds, learning_rate=1.0)
    assert found.rounds == 16
    assert run.history[-1].accuracy is not None
    assert run.history[-1].accuracy > 0.9


def table_file(folder: Path, text: str) -> Path:
    (folder / "own.csv").write_text(text)
    return folder / "own.csv"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("device,at,a,y\np,2026-01-01,1,x\nq,2026-01-02,2,\n", r"'y'.*line 3|line 3.*'y'"),
        ("device,at,a,y\np,2026-01-01,1,x\n,2026-01-02,2,z\n", r"device"),
        ("device,at,a,a,y\np,2026-01-01,1,2,x\nq,2026-01-02,2,3,z\n", r"'a' is there twice"),
        ("device,at,a,y\np,2026-01-01,1.5,x\nq,2026-01-02,hot,z\n", r"'hot' is not a number"),
        ("device,at,a,y\np,2026-01-01,1,x\nq,2026-01-02,2,x\n", r"one class only"),
        ("device;at;a;y\np;2026-01-01;1,5;x\nq;2026-01-02;2;z\n", r"'1,5' .* with a point"),
        ("", r"own.csv: cannot be read: Empty CSV file"),
        ("device,at,a,y\np,2026-01-01,1,2.5\nq,2026-01-02,2,1e300\n", r"'y', line 3: 1e\+300"),
        ("device,at,a,y\np,2026-01-01,1,2.5\nq,2026-01-02,-1e39,1\n", r"'a', line 3: -1e\+39"),
    ],
)
def test_tables_that_would_be_learned_wrongly_are_refused(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        from_frame(table_file(tmp_path, text), **COLUMNS)


def test_client_time_and_label_are_three_columns() -> None:
    with pytest.raises(InputError, match="three different columns"):
        from_frame(frame(), client="device", time="at", label="at")


def test_a_federation_of_a_table_is_shown_in_short() -> None:
    assert len(repr(from_frame(frame(), **COLUMNS))) < 500


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["own.csv", "own.csv.gz"])
def test_the_separator_is_found_by_the_columns_that_are_named(
    tmp_path: Path, separator: str, name: str
) -> None:
    expected = from_frame(frame(), **COLUMNS)
    frame().to_csv(tmp_path / name, sep=separator, index=False)
    found = from_frame(tmp_path / name, **COLUMNS)
    assert found.features == expected.features
    torch.testing.assert_close(found.train.x, expected.train.x)


def test_folders_and_foreign_letters_are_named(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=r"folder.csv: this is a folder"):
        from_frame(tmp_path / "folder.csv", **COLUMNS)
    with pytest.raises(InputError, match=r"no.csv: there is no such file"):
        from_frame(tmp_path / "no.csv", **COLUMNS)
    (tmp_path / "own.csv").write_text("device,at,a,y\np,2026-01-01,1,x\n", encoding="utf-16")
    with pytest.raises(InputError, match=r"own.csv: this is not UTF-8 text"):
        from_frame(tmp_path / "own.csv", **COLUMNS)
    (tmp_path / "own.csv").write_bytes(b"device,at,a,y\n\xe9,2026-01-01,1,x\nq,2026-01-02,2,z\n")
    with pytest.raises(InputError, match=r"'device': not UTF-8 text"):
        from_frame(tmp_path / "own.csv", **COLUMNS)


def test_a_table_without_a_feature_is_named() -> None:
    table = {name: column for name, column in frame().items() if name in COLUMNS.values()}
    with pytest.raises(InputError, match="features: table has no column beside"):
        from_frame(table, **COLUMNS)
    with pytest.raises(InputError, match=r"features: .* has no column beside"):
        from_frame(frame(), **COLUMNS, features=[])
