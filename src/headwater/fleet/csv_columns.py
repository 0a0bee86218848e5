"""The values of a CSV file, column by column, many rows at a time.

A list for every row of a large file costs more than all else that is done with it. Where nothing is
quoted, which is almost always, lines are therefore joined and split once for a whole block, and a
column is every k-th piece. Where something is quoted, Python's own reader takes the rows apart.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import InputError
from headwater.separators import SEPARATORS, separator_of

if TYPE_CHECKING:
    from _csv import Reader

_BLOCK = 1 << 16  # rows that are turned into columns at once: few enough for the cache


Columns = Sequence[Sequence[str]]
"""One sequence of values for each column."""


@dataclass(frozen=True)
class CsvText:
    """The text of a CSV file and what separates its values.

    Attributes:
        path: of the file, for messages.
        text: all of it.
        separator: one of :data:`~headwater.separators.SEPARATORS`.
    """

    path: Path
    text: str
    separator: str

    @classmethod
    def of(cls, path: Path, text: str, names: Sequence[str]) -> CsvText:
        """Find the separator: whichever makes the most of the first line's names known.

        >>> CsvText.of(Path("f.csv"), "client;samples", names=["client", "samples"]).separator
        ';'
        """
        return cls(path, text, separator_of(text.partition("\n")[0].lower(), names))

    def header(self) -> list[str]:
        """The first line's words; none if it is empty."""
        reader = self._reader()
        try:
            return [word.strip().lower() for word in next(reader, [])]
        except csv.Error as error:
            raise InputError(f"{self.path}, line {reader.line_num}: {error}") from None

    def line(self, record: int) -> int:
        """The line on which a record ends, the header being record 0; counted by reading again."""
        reader = self._reader()
        filled = (reader.line_num for row in reader if any(row))
        return next(islice(filled, record, None))

    def blocks(self, width: int) -> Iterator[tuple[Columns, float]]:
        """The columns of many rows at a time, and which fraction of the file has been read.

        Args:
            width: the number of columns, and of values in every row.
        """
        return self._quoted(width) if '"' in self.text else self._plain(width)

    def _plain(self, width: int) -> Iterator[tuple[Columns, float]]:
        lines = self.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        blank = self.separator + " "
        before = 1
        for start in range(1, len(lines), _BLOCK):
            filled = [line for line in lines[start : start + _BLOCK] if line.strip(blank)]
            self._check_widths([line.count(self.separator) + 1 for line in filled], width, before)
            if filled:
                values = self.separator.join(filled).split(self.separator)
                columns = [values[k::width] for k in range(width)]
                yield columns, min(1.0, (start + _BLOCK) / len(lines))
            before += len(filled)

    def _quoted(self, width: int) -> Iterator[tuple[Columns, float]]:
        lines = self.text.count("\n") + 1
        reader = self._reader()
        next(reader)
        before = 1
        while rows := self._read(reader):
            filled = [row for row in rows if any(row)]
            self._check_widths([len(row) for row in filled], width, before)
            if filled:
                yield list(zip(*filled, strict=True)), min(1.0, reader.line_num / lines)
            before += len(filled)

    def _reader(self) -> Reader:
        text = io.StringIO(self.text, newline="")
        return csv.reader(text, delimiter=self.separator, skipinitialspace=True)

    def _read(self, reader: Reader) -> list[list[str]]:
        """Some more rows."""
        try:
            return list(islice(reader, _BLOCK))
        except csv.Error as error:
            raise InputError(f"{self.path}, line {reader.line_num}: {error}") from None

    def _check_widths(self, widths: Sequence[int], width: int, before: int) -> None:
        if set(widths) <= {width}:
            return
        row = next(k for k, found in enumerate(widths) if found != width)
        words = SEPARATORS[self.separator]
        raise InputError(
            f"{self.path}, line {self.line(before + row)}: {widths[row]} values, but the first "
            f"line names {width} columns; values are separated by {words}, and one that has such a "
            "character in it is put in quotes"
        )
