"""A fleet file's values as columns: read, completed and checked for all rows of a block at once.

Nothing here goes from row to row but to name the one that is wrong: a file of a million rows is a
handful of passes over each column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from headwater.errors import InputError
from headwater.fleet.fleet import LARGEST, Flags, Fleet
from headwater.ledger.holdings import Counts
from headwater.randomness import Floats

COLUMNS = ("client", "samples", "fresh", "rate", "capacity", "count", "kind")
Values = Mapping[str, Sequence[object]]
"""The values of some rows by column, as the file has them; an empty string where it has none."""

Place = Callable[[int, str], str]
"""Where the value of a row and a column stands, for messages."""

_WORDS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_CLOSE = 1e-9  # 0.1 · 30 is above 3 in floating point, and must not become four samples


@dataclass(frozen=True)
class _Block:
    """Some rows of a file, all of whose values have been understood; missing numbers are NaN."""

    names: Sequence[str]
    kinds: Sequence[str]
    fresh: Flags
    samples: Floats
    rate: Floats
    capacity: Floats
    count: Floats


@dataclass
class FleetColumns:
    """Grows by one block of rows after the other, and is a fleet in the end.

    Attributes:
        rounds: T, from which a missing rate or number of samples follows.
    """

    rounds: int
    _blocks: list[_Block] = field(default_factory=list)
    _places: list[Place] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def __len__(self) -> int:
        return sum(len(block.names) for block in self._blocks)

    def add(self, values: Values, place: Place) -> None:
        """Take in some rows, or say which value cannot be used and where it stands."""
        given = _Given(values, place)
        names = self._names(given)
        fresh = given.flags("fresh")
        block = _Block(
            names=names,
            kinds=given.words("kind"),
            fresh=fresh,
            samples=given.whole("samples"),
            rate=given.numbers("rate", zero=~fresh),
            capacity=given.whole("capacity", zero=~fresh),
            count=given.whole("count"),
        )
        _check_history(block, given)
        block = _completed(block, given, self.rounds)
        self._blocks.append(block)
        self._places.append(place)

    def fleet(self) -> Fleet:
        """All rows."""

        def whole(columns: Iterable[Floats]) -> Counts:
            return np.concatenate(list(columns)).astype(np.int64)

        return Fleet(
            names=[name for block in self._blocks for name in block.names],
            samples=whole(block.samples for block in self._blocks),
            fresh=np.concatenate([block.fresh for block in self._blocks]),
            rate=np.concatenate([block.rate for block in self._blocks]),
            capacity=whole(block.capacity for block in self._blocks),
            count=whole(block.count for block in self._blocks),
            kinds=[kind for block in self._blocks for kind in block.kinds],
        )

    def _names(self, given: _Given) -> list[str]:
        """The rows' names, none of them empty and none of them twice."""
        names = given.words("client")
        if "" in names:
            raise given.fail(names.index(""), "client", "the client has no name")
        before = len(self._seen)
        self._seen.update(names)
        if len(self._seen) != before + len(names):
            raise self._twice(names, given.place)
        return names

    def _twice(self, names: list[str], place: Place) -> InputError:
        """An error that says where both clients of one name stand."""
        blocks = [*(block.names for block in self._blocks), names]
        rows = [(block, row) for block, some in enumerate(blocks) for row in range(len(some))]
        places = [*self._places, place]
        first: dict[str, tuple[int, int]] = {}
        for block, row in rows:
            name = blocks[block][row]
            if first.setdefault(name, (block, row)) != (block, row):
                before, at = first[name]
                other = places[before](at, "client")
                here = places[block](row, "client")
                return InputError(f"{here}: there is another client {name!r}, at {other}")
        raise AssertionError("no name is there twice")


@dataclass(frozen=True)
class _Given:
    """Values as a file has them."""

    values: Values
    place: Place

    def fail(self, row: int, column: str, problem: str) -> InputError:
        """An error that says where."""
        return InputError(f"{self.place(row, column)}: {problem}")

    def column(self, name: str) -> Sequence[object]:
        """One value per row, an empty string where there is none."""
        if name in self.values:
            return self.values[name]
        return ("",) * len(self.values["client"])

    def words(self, name: str) -> list[str]:
        """One word per row."""
        return [str(value).strip() for value in self.column(name)]

    def flags(self, name: str) -> Flags:
        """Yes or no for each row."""
        values = self.column(name)
        words = {value: _WORDS.get(value.strip().lower()) for value in set(map(str, values))}
        if None in words.values():
            row = next(k for k, value in enumerate(values) if words[str(value)] is None)
            raise self.fail(
                row,
                name,
                f"got {values[row]!r}; yes if the samples come as a stream, no if they are all "
                "there",
            )
        return np.array([words[str(value)] for value in values], np.bool_)

    def numbers(self, name: str, zero: Flags | None = None) -> Floats:
        """One number above zero for each row, NaN where there is none.

        Args:
            name: of the column.
            zero: rows in which a zero stands for nothing.
        """
        values = self.column(name)
        found = self._floats(values, name)
        if zero is not None:
            found[zero & (found == 0)] = math.nan
        # Rows without a number are NaN, and so would be one that says "nan".
        for row in np.flatnonzero(~((found > 0) & (found <= LARGEST))).tolist():
            nothing = zero is not None and zero[row] and _float(values[row]) == 0
            if str(values[row]).strip() and not nothing:
                raise self._no_number(row, name)
        return found

    def _floats(self, values: Sequence[object], name: str) -> Floats:
        if set(map(type, values)) == {str}:  # as in every CSV file
            words = cast(Sequence[str], values)
            try:
                return np.array([float(word or math.nan) for word in words])
            except ValueError:
                pass  # a blank, or a word that is no number; look at each
        try:
            return np.array([_float(value) for value in values])
        except (ValueError, OverflowError):
            row = next(k for k, value in enumerate(values) if not _is_number(value))
            raise self._no_number(row, name) from None

    def _no_number(self, row: int, name: str) -> InputError:
        value = self.column(name)[row]
        hint = "; decimals have a point" if isinstance(value, str) and "," in value else ""
        return self.fail(
            row, name, f"got {value!r}; a number above 0 and at most {LARGEST:g}{hint}"
        )

    def whole(self, name: str, zero: Flags | None = None) -> Floats:
        """One whole number above zero for each row, NaN where there is none."""
        found = self.numbers(name, zero)
        broken = np.flatnonzero(found % 1 > 0)
        if len(broken):
            row = int(broken[0])
            raise self.fail(row, name, f"got {self.column(name)[row]!r}; a whole number")
        return found


def _float(value: object) -> float:
    """A number, or NaN where there is nothing."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("no number")
    if isinstance(value, str) and not value.strip():
        return math.nan
    return float(value)


def _is_number(value: object) -> bool:
    try:
        _float(value)
    except (ValueError, OverflowError):
        return False
    return True


def _check_history(block: _Block, given: _Given) -> None:
    """A historical client has all its samples from the start and keeps them."""

    def first(bad: Flags, column: str, problem: Callable[[int], str]) -> None:
        rows = np.flatnonzero(bad & ~block.fresh)
        if len(rows):
            row = int(rows[0])
            raise given.fail(
                row, column, f"client {block.names[row]!r} is historical{problem(row)}"
            )

    first(np.isnan(block.samples), "samples", lambda _: " and needs a number of samples")
    first(
        ~np.isnan(block.rate),
        "rate",
        lambda _: ", all its samples are there before round 1; leave the rate empty or say fresh",
    )
    first(
        block.capacity < block.samples,
        "capacity",
        lambda row: (
            f" and keeps all its samples, but can keep {block.capacity[row]:.0f} of "
            f"{block.samples[row]:.0f}; leave the capacity empty or say fresh"
        ),
    )


def _completed(block: _Block, given: _Given, rounds: int) -> _Block:
    """Put in what follows from the rest, and check that what comes in a round can be kept."""
    fresh = block.fresh
    unknown = np.flatnonzero(fresh & np.isnan(block.samples) & np.isnan(block.rate))
    if len(unknown):
        row = int(unknown[0])
        problem = f"fresh client {block.names[row]!r} needs a number of samples or a rate"
        raise given.fail(row, "samples", problem)
    rate = np.where(np.isnan(block.rate), block.samples / rounds, block.rate)
    samples = np.where(np.isnan(block.samples), np.ceil(rate * rounds - _CLOSE), block.samples)
    many = np.flatnonzero(fresh & (samples > LARGEST))
    if len(many):
        row = int(many[0])
        problem = f"{rate[row]:g} samples per round make more than {LARGEST:g} in {rounds:,} rounds"
        raise given.fail(row, "rate", problem)
    capacity = np.where(np.isnan(block.capacity), np.ceil(rate), block.capacity)
    over = np.flatnonzero(fresh & (np.ceil(rate) > capacity))
    if len(over):
        row = int(over[0])
        stream = f"client {block.names[row]!r} gets {rate[row]:g} samples per round"
        problem = f"{stream} and can keep {capacity[row]:.0f}; a round's must fit"
        raise given.fail(row, "capacity", problem)
    return _Block(
        names=block.names,
        kinds=block.kinds,
        fresh=fresh,
        samples=np.maximum(samples, 1),
        rate=np.where(fresh, rate, 0.0),
        capacity=np.where(fresh, capacity, 0.0),
        count=np.where(np.isnan(block.count), 1.0, block.count),
    )
