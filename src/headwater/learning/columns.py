"""Columns of a table as NumPy arrays, whatever holds the table, with errors that name the place.

A table is a pandas, Polars or PyArrow one, a mapping of names to arrays, or the path of a CSV or
Parquet file. None of these libraries is needed but the one that holds the table; a path needs
PyArrow, which comes with ``pip install "headwater[frames]"``.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.separators import separator_of

Column = NDArray[Any]
_LARGEST = float(np.finfo(np.float32).max)
_LONGEST_HEADER = 1 << 20  # bytes; a file without line ends is not read as one line


@dataclass(frozen=True)
class Columns:
    """A table, column by column.

    Attributes:
        source: What an error calls the table.
        names: The columns that there are.
        rows: How many rows there are.
        fetch: A column's values.
        line: What the first row is called: 2 in a CSV file, whose line 1 are the names; else 0.
    """

    source: str
    names: tuple[str, ...]
    rows: int
    fetch: Callable[[str], Column]
    line: int = 0

    def __getitem__(self, name: str) -> Column:
        return self.fetch(name)

    def place(self, name: str, row: int) -> str:
        """How an error names a cell."""
        kind = "line" if self.line else "row"
        return f"{self.source}, column {name!r}, {kind} {row + self.line}"

    def need(self, names: Sequence[str], setting: str) -> None:
        """Refuse names that no column has."""
        missing = [name for name in names if name not in self.names]
        if missing:
            raise InputError(
                f"{setting}: {self.source} has no column {missing[0]!r}; it has: "
                f"{', '.join(self.names)}"
            )

    def numbers(self, name: str) -> Column:
        """A column of finite numbers, as far as float32 goes."""
        values = self[name]
        if values.dtype.kind == "O":
            values = self._unboxed(name, values)
        if values.dtype.kind not in "fiub":
            raise self._no_number(name, 0, values[0])
        # NaN is within no bounds, so this finds what is missing as well.
        bad = np.flatnonzero(~(np.abs(values.astype(np.float64, copy=False)) <= _LARGEST))
        if len(bad):
            raise InputError(
                f"{self.place(name, int(bad[0]))}: {values[bad[0]]}, as in {len(bad):,} of "
                f"{self.rows:,} rows; drop these rows or fill them in first"
            )
        return values

    def _no_number(self, name: str, row: int, value: object) -> InputError:
        comma = isinstance(value, str) and _reads(value.replace(",", "."))
        advice = "write decimals with a point" if comma else "turn it into numbers first"
        return InputError(
            f"{self.place(name, row)}: {value!r} is not a number; leave the column out of "
            f"features, or {advice}"
        )

    def _unboxed(self, name: str, values: Column) -> Column:
        """Python numbers, some of them perhaps missing, as an array."""
        found = np.empty(len(values))
        for row, value in enumerate(values):
            try:
                found[row] = np.nan if _missing(value) else float(_no_text(value))
            except (TypeError, ValueError):
                # In a column of text the first number is as much text as the word that made it so.
                bad = next((r for r, v in enumerate(values) if not _reads(v)), row)
                raise self._no_number(name, bad, values[bad]) from None
        return found

    def words(self, name: str) -> Column:
        """A column of names, none of them missing: words or whole numbers."""
        values = self[name]
        blank = np.flatnonzero([value == "" for value in values])
        gone = np.union1d(_gaps(values), blank).astype(np.int64)
        if len(gone):
            raise InputError(
                f"{self.place(name, int(gone[0]))}: missing, as in {len(gone):,} of {self.rows:,} "
                "rows; drop these rows or fill them in first"
            )
        if values.dtype.kind == "O":
            same = all(type(value) is type(values[0]) for value in values)
            return np.array(values.tolist() if same else [str(value) for value in values])
        return values

    def times(self, name: str) -> Column:
        """A column of moments: int64 microseconds, or numbers as they are."""
        values = self[name]
        if values.dtype.kind in "iu":
            return values.astype(np.int64)
        if values.dtype.kind == "f":
            return self.numbers(name)
        if values.dtype.kind != "M":
            values = np.array([self._moment(name, row, v) for row, v in enumerate(values)])
        gone = np.flatnonzero(np.isnat(values))
        if len(gone):
            raise InputError(
                f"{self.place(name, int(gone[0]))}: no time, as in {len(gone):,} of {self.rows:,} "
                "rows; drop these rows first"
            )
        return values.astype("M8[us]").astype(np.int64)

    def _moment(self, name: str, row: int, value: object) -> np.datetime64:
        try:
            return np.datetime64("NaT") if _missing(value) else moment(value)
        except ValueError:
            raise InputError(
                f"{self.place(name, row)}: {value!r} is not a time; write times as "
                "2026-01-31 13:05:00, or parse the column first (pandas.to_datetime)"
            ) from None


def moment(value: object) -> np.datetime64:
    """A moment from a text, a date or a time; those with a time zone are brought to UTC.

    Example:
        >>> moment("2026-01-01"), moment("2026-01-01T02:00+01:00")
        (np.datetime64('2026-01-01T00:00:00.000000'), np.datetime64('2026-01-01T01:00:00.000000'))
    """
    if isinstance(value, str):
        value = datetime.fromisoformat(value.strip())
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(value, "us")  # type: ignore[call-overload]


def columns(table: Any, names: Sequence[str] = ()) -> Columns:
    """The columns of a table; see the module's docstring for what a table may be.

    Args:
        table: The table; one whose columns were taken before stays what it is.
        names: Columns that it is expected to have: by them a CSV file's separator is found.
    """
    if isinstance(table, Columns):
        return table
    if isinstance(table, str | Path):
        return _file(Path(table), names)
    library = type(table).__module__.partition(".")[0]
    if library == "pandas":
        return Columns("frame", tuple(map(str, table.columns)), len(table), _pandas(table))
    if library == "polars":
        table = table.collect() if hasattr(table, "collect") else table
        return Columns("frame", tuple(table.columns), table.height, _polars(table))
    if library == "pyarrow":
        return Columns("table", tuple(table.column_names), table.num_rows, _arrow(table))
    if isinstance(table, Mapping) and table:
        arrays = {str(name): np.asarray(values) for name, values in table.items()}
        rows = len(next(iter(arrays.values())))
        return Columns("table", tuple(arrays), rows, arrays.__getitem__)
    raise InputError(
        "frame: a pandas, Polars or PyArrow table, a mapping of names to arrays, or the path of a "
        f".csv or .parquet file; got a {type(table).__name__}"
    )


def _pandas(frame: Any) -> Callable[[str], Column]:
    def fetch(name: str) -> Column:
        series = frame[name]
        if getattr(series.dtype, "tz", None) is not None:
            series = series.dt.tz_convert("UTC").dt.tz_localize(None)
        return np.asarray(series.to_numpy())

    return fetch


def _polars(frame: Any) -> Callable[[str], Column]:
    def fetch(name: str) -> Column:
        series = frame[name]
        if getattr(series.dtype, "time_zone", None):
            series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return np.asarray(series.to_numpy())

    return fetch


def _arrow(table: Any) -> Callable[[str], Column]:
    def fetch(name: str) -> Column:
        column = table.column(name).combine_chunks()
        if hasattr(column, "dictionary_decode"):
            column = column.dictionary_decode()
        return np.asarray(column.to_numpy(zero_copy_only=False))

    return fetch


def _file(path: Path, names: Sequence[str]) -> Columns:
    kind = "".join(path.suffixes[-2:] if path.suffix == ".gz" else path.suffixes[-1:]).lower()
    if kind not in (".csv", ".csv.gz", ".parquet"):
        raise InputError(f"{path}: a .csv, .csv.gz or .parquet file is needed")
    if path.is_dir():
        raise InputError(f"{path}: this is a folder; give a .csv, .csv.gz or .parquet file")
    if not path.exists():
        raise InputError(f"{path}: there is no such file; give a .csv, .csv.gz or .parquet file")
    try:
        import pyarrow
        from pyarrow import csv, parquet
    except ImportError as error:
        raise InputError(
            f'{path}: reading it needs PyArrow: pip install "headwater[frames]"'
        ) from error
    try:
        if kind == ".parquet":
            table = parquet.read_table(path)
        else:
            first = _first_line(path)
            if "\0" in first:  # as in every second place of UTF-16
                raise InputError(f"{path}: this is not UTF-8 text; save the file in UTF-8")
            separator = csv.ParseOptions(delimiter=separator_of(first, names))
            table = csv.read_csv(path, parse_options=separator)
    except (pyarrow.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        # Arrow says more than a line where it prints rows that it could not take apart.
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{path}: cannot be read: {reason}") from error
    found = tuple(table.column_names)
    foreign = [field.name for field in table.schema if pyarrow.types.is_binary(field.type)]
    if kind != ".parquet" and foreign:
        raise InputError(f"{path}, column {foreign[0]!r}: not UTF-8 text; save the file in UTF-8")
    twice = [name for name in found if found.count(name) > 1]
    if twice:
        raise InputError(f"{path}: column {twice[0]!r} is there twice; rename one of them")
    return Columns(str(path), found, table.num_rows, _arrow(table), 0 if kind == ".parquet" else 2)


def _first_line(path: Path) -> str:
    """The names of a CSV file's columns."""
    with path.open("rb") as file:
        text = gzip.GzipFile(fileobj=file) if path.suffix.lower() == ".gz" else file
        return text.readline(_LONGEST_HEADER).decode("utf-8-sig", errors="replace").rstrip("\n")


def _gaps(values: Column) -> Column:
    """The rows without a value."""
    if values.dtype.kind == "O":
        return np.flatnonzero([_missing(value) for value in values])
    return np.flatnonzero(values != values)  # NaN and NaT are not even themselves


def _missing(value: object) -> bool:
    """None, NaN, NaT, pandas.NA: all that is not even equal to itself."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA does not even say that
        return True


def _reads(value: Any) -> bool:
    """Whether this could be a number, if it were not among words."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _no_text(value: Any) -> Any:
    if isinstance(value, str):  # float("12") would take a column of words for numbers
        raise TypeError
    return value
