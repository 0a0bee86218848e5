"""Federation files: a list of clients as CSV or TOML.

Columns, or keys of a ``[[client]]`` table:

    client     a name, different for each row
    samples    N_m, how many samples a client has or will see (a stream with a rate may leave it
    out) fresh      yes: the samples come as a stream; no: they are all there before round 1 rate
    samples a round of a stream; unless given, samples / rounds capacity   samples that a stream's
    client can keep, the newest; unless given, those of one round count      how many clients are
    like this one; unless given, 1
"""

from __future__ import annotations

import csv
import io
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from headwater.errors import InputError
from headwater.fleet.fleet import Fleet, Kind

COLUMNS = ("client", "samples", "fresh", "rate", "capacity", "count")
REQUIRED = ("client", "fresh")
_WORDS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_LARGEST = 10**15


@dataclass(frozen=True)
class Record:
    """One client as the file has it, and where each of its values stands."""

    values: Mapping[str, Any]
    place: Callable[[str], str]

    def fail(self, column: str, problem: str) -> InputError:
        """An error that says where."""
        return InputError(f"{self.place(column)}: {problem}")


def read(path: Path, rounds: int) -> Fleet:
    """Read a federation file; ``rounds`` is what a missing rate follows from."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; give a federation file, .csv or .toml")
    readers = {".csv": _from_csv, ".toml": _from_toml}
    if path.suffix.lower() not in readers:
        raise InputError(f"{path}: a federation file ends in .csv or .toml")
    records = readers[path.suffix.lower()](path, _text(path))
    seen: dict[str, Record] = {}
    kinds = [_kind(record, rounds, seen) for record in records]
    if not kinds:
        raise InputError(f"{path}: there are no clients in this file; give at least one")
    return Fleet.of(kinds)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise InputError(
            f"{path}, line {line}: this is not UTF-8 text; save the file in UTF-8"
        ) from None


def _from_csv(path: Path, text: str) -> Iterator[Record]:
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        if not header:
            raise InputError(
                f"{path}: the file is empty; its first line must name the columns: {_columns()}"
            )
        _check_names(header, lambda: f"{path}, line 1")
        for values in reader:
            if any(value.strip() for value in values):
                yield _csv_record(path, reader.line_num, header, values)
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}") from None


def _csv_record(path: Path, line: int, header: list[str], values: list[str]) -> Record:
    if len(values) != len(header):
        raise InputError(
            f"{path}, line {line}: {len(values)} values, but the first line names {len(header)} "
            "columns; "
            "values are separated by commas, and one that has a comma in it is put in quotes"
        )

    def place(column: str) -> str:
        at = f", column {header.index(column) + 1}" if column in header else ""
        return f"{path}, line {line}{at} ({column})"

    return Record({name: value.strip() for name, value in zip(header, values, strict=True)}, place)


def _from_toml(path: Path, text: str) -> Iterator[Record]:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: this is not TOML: {error}") from None
    tables = content.pop("client", [])
    if content:
        raise InputError(
            f"{path}: unknown key {next(iter(content))!r}; clients are tables [[client]]"
        )
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{path}: clients are tables, each under a line [[client]]")
    for number, table in enumerate(tables):
        place = _toml_place(path, text, number)
        _check_names(list(table), partial(place, "client"))  # looked for only if something is wrong
        yield Record(table, place)


def _toml_place(path: Path, text: str, number: int) -> Callable[[str], str]:
    """Where a key of a table stands; the parser does not tell, so look for the table's line and
    then the key's."""

    def place(key: str) -> str:
        starts = [m.start() for m in re.finditer(r"^\s*\[\[\s*client\s*\]\]", text, re.MULTILINE)]
        if number >= len(starts):
            return f"{path}, client {number + 1} ({key})"
        end = starts[number + 1] if number + 1 < len(starts) else len(text)
        found = re.compile(rf"^\s*{key}\s*=\s*", re.MULTILINE).search(text, starts[number], end)
        at = found.end() if found else re.compile(r"\[").search(text, starts[number]).start()  # type: ignore[union-attr]
        line_start = text.rfind("\n", 0, at) + 1
        return (
            f"{path}, line {text.count(chr(10), 0, at) + 1}, column {at - line_start + 1} ({key})"
        )

    return place


def _check_names(names: list[str], where: Callable[[], str]) -> None:
    for name in names:
        if name not in COLUMNS:
            raise InputError(f"{where()}: unknown column {name!r}; the columns are: {_columns()}")
        if names.count(name) > 1:
            raise InputError(f"{where()}: column {name!r} is there twice")
    missing = [name for name in REQUIRED if name not in names]
    if not missing and not {"samples", "rate"} & set(names):
        missing = ["samples"]
    if missing:
        raise InputError(
            f"{where()}: column {missing[0]!r} is missing; the columns are: {_columns()}"
        )


def _columns() -> str:
    return "client, samples, fresh and, if wanted, rate, capacity, count"


def _kind(record: Record, rounds: int, seen: dict[str, Record]) -> Kind:
    name = str(record.values["client"]).strip()
    if not name:
        raise record.fail("client", "the client has no name")
    if name in seen:
        raise record.fail(
            "client", f"there is another client {name!r}, at {seen[name].place('client')}"
        )
    seen[name] = record
    count = _whole(record, "count") or 1
    if not _yes(record):
        samples = _whole(record, "samples")
        if samples is None:
            raise record.fail("samples", f"historical client {name!r} needs a number of samples")
        return Kind(name, samples, fresh=False, count=count)
    return _stream(record, name, count, rounds)


def _stream(record: Record, name: str, count: int, rounds: int) -> Kind:
    samples, rate, capacity = (
        _whole(record, "samples"),
        _number(record, "rate"),
        _whole(record, "capacity"),
    )
    if samples is None and rate is None:
        raise record.fail("samples", f"fresh client {name!r} needs a number of samples or a rate")
    rate = rate or (samples or 0) / rounds
    samples = samples or math.ceil(rate * rounds)
    capacity = capacity or math.ceil(rate)
    if math.ceil(rate) > capacity:
        stream = f"client {name!r} gets {rate:g} samples a round"
        problem = f"{stream} and can keep {capacity}; a round's must fit"
        raise record.fail("capacity", problem)
    return Kind(name, samples, True, rate, capacity, count)


def _yes(record: Record) -> bool:
    value = record.values["fresh"]
    word = _WORDS.get(str(value).strip().lower())
    if word is None:
        raise record.fail(
            "fresh", f"got {value!r}; yes if the samples come as a stream, no if they are all there"
        )
    return word


def _number(record: Record, column: str) -> float | None:
    """A number above zero, or None if there is nothing."""
    value = record.values.get(column, "")
    if value == "":
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number <= _LARGEST:
        raise record.fail(column, f"got {value!r}; a number above 0 and at most {_LARGEST:g}")
    return number


def _whole(record: Record, column: str) -> int | None:
    number = _number(record, column)
    if number is not None and not number.is_integer():
        raise record.fail(column, f"got {record.values[column]!r}; a whole number")
    return None if number is None else int(number)
