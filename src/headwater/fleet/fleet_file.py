"""Fleet files: a list of clients as CSV or TOML.

Columns, or keys of a ``[[client]]`` table:

    client     a name, different for each row
    samples    N_m, how many samples a client has or will see; a stream with a rate may leave it out
    fresh      yes: the samples come as a stream; no: they are all there before round 1
    rate       samples per round of a stream; unless given, samples / rounds
    capacity   newest samples that a stream's client can keep; unless given, those of one round
    count      how many clients are like this one; unless given, 1
    kind       a word that several rows share, so that a what-if can name them all

The values of a CSV file are separated by commas, semicolons, tabs or vertical bars, whichever its
first line has.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path

from headwater.errors import InputError
from headwater.fleet.columns import COLUMNS, FleetColumns, Place, Values
from headwater.fleet.csv_columns import CsvText
from headwater.fleet.fleet import Fleet

Watch = Callable[[float], None]
"""Is told which fraction of a file has been read."""

REQUIRED = ("client", "fresh")


def read(path: Path, rounds: int, watch: Watch | None = None) -> Fleet:
    """Read a fleet file; ``rounds`` is what a missing rate follows from."""
    if path.is_dir():
        raise InputError(f"{path}: this is a folder; give a fleet file, .csv or .toml")
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; give a fleet file, .csv or .toml")
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".toml"):
        raise InputError(f"{path}: a fleet file ends in .csv or .toml")
    columns = FleetColumns(rounds)
    blocks = _from_csv if suffix == ".csv" else _from_toml
    for values, place, fraction in blocks(path, _text(path)):
        columns.add(values, place)
        if watch is not None:
            watch(fraction)
    if not len(columns):
        raise InputError(f"{path}: there are no clients in this file; give at least one")
    return columns.fleet()


Block = tuple[Values, Place, float]
"""Some rows in columns, where their values stand, and how much of the file has been read."""


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    nul = content.find(b"\0")
    if nul >= 0 and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        line = content.count(b"\n", 0, nul) + 1
        raise InputError(f"{path}, line {line}: there is a NUL byte; this is not a text file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}, line {line}: this is not UTF-8 text; save the file in UTF-8"
        ) from None


def _from_csv(path: Path, text: str) -> Iterator[Block]:
    table = CsvText.of(path, text, COLUMNS)
    header = table.header()
    if not header:
        raise InputError(
            f"{path}: the file is empty; its first line must name the columns: {_columns()}"
        )
    _check_names(header, lambda: f"{path}, line 1")
    before = 1
    for columns, fraction in table.blocks(len(header)):
        values = dict(zip(header, columns, strict=True))
        yield values, _csv_place(table, header, before), fraction
        before += len(columns[0])


def _csv_place(table: CsvText, header: Sequence[str], before: int) -> Place:
    """Where the values of some rows stand, of which row 0 is record ``before`` of the file."""

    def place(row: int, column: str) -> str:
        at = f", column {header.index(column) + 1}" if column in header else ""
        return f"{table.path}, line {table.line(before + row)}{at} ({column})"

    return place


def _from_toml(path: Path, text: str) -> Iterator[Block]:
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path}: this is not TOML: {error}") from None
    tables = content.pop("client", [])
    if content:
        raise InputError(
            f"{path}: unknown key {next(iter(content))!r}; clients are tables [[client]]"
        )
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{path}: clients are tables, each under a line [[client]]")
    place = _toml_place(path, text)
    named = sum(1 for _ in takewhile(lambda table: _misnamed(list(table)) is None, tables))
    if named:
        values = {name: tuple(table.get(name, "") for table in tables[:named]) for name in COLUMNS}
        yield values, place, 1.0
    for row, table in enumerate(tables[named:], named):  # after mistakes that come before it
        _check_names(list(table), partial(place, row, "client"))


def _toml_place(path: Path, text: str) -> Place:
    """Where keys stand. The parser does not tell, so look for the table's line, then the key's."""

    def place(row: int, key: str) -> str:
        starts = [m.start() for m in re.finditer(r"^\s*\[\[\s*client\s*\]\]", text, re.MULTILINE)]
        if row >= len(starts):
            return f"{path}, client {row + 1} ({key})"
        end = starts[row + 1] if row + 1 < len(starts) else len(text)
        found = re.compile(rf"^\s*{key}\s*=\s*", re.MULTILINE).search(text, starts[row], end)
        at = found.end() if found else text.index("[", starts[row])
        line_start = text.rfind("\n", 0, at) + 1
        line = text.count("\n", 0, at) + 1
        return f"{path}, line {line}, column {at - line_start + 1} ({key})"

    return place


def _check_names(names: Sequence[str], where: Callable[[], str]) -> None:
    problem = _misnamed(names)
    if problem is not None:
        raise InputError(f"{where()}: {problem}")


def _misnamed(names: Sequence[str]) -> str | None:
    """What is wrong with the names of columns: unknown, there twice, or missing."""
    for name in names:
        if name not in COLUMNS:
            return f"unknown column {name!r}; the columns are: {_columns()}"
        if names.count(name) > 1:
            return f"column {name!r} is there twice"
    missing = [name for name in REQUIRED if name not in names]
    if not missing and not {"samples", "rate"} & set(names):
        missing = ["samples"]
    return f"column {missing[0]!r} is missing; the columns are: {_columns()}" if missing else None


def _columns() -> str:
    return "client, samples, fresh and, if wanted, rate, capacity, count, kind"
