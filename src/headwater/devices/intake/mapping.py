"""From messages to samples: fields picked, scaled, checked; what does not fit is named.

A message is bytes with a JSON object, or a record that a source has taken apart already. Many
messages are mapped at once: right ones, the usual case, cost one pass over arrays. In a batch with
wrong ones these are found and looked at by themselves, and the others still go together, so each
message is judged the same in whatever company it comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from headwater.devices.intake.flat import NOT_USUAL, Row, json_rows, record_rows
from headwater.devices.settings.samples import SampleSettings

Record = Mapping[str, Any]  # what a sender wrote: anything
Message = bytes | Record
_NUMBER_ERRORS = (TypeError, ValueError, OverflowError)


@dataclass(frozen=True)
class Rows:
    """Mapped messages, whole or in part.

    Attributes:
        x: features, one row per message; None for a label that comes alone.
        y: labels; None for a sample that waits for one.
        ids, times: one per message, or None.
    """

    x: NDArray[np.float64] | None
    y: NDArray[np.float64] | None
    ids: list[str | None]
    times: list[float | None]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass
class Mapped:
    """What became of some messages.

    Attributes:
        parts: samples and halves of samples, in the order of the messages.
        wrong: the other messages, each with the reason.
    """

    parts: list[Rows] = field(default_factory=list)
    wrong: list[tuple[Message, str]] = field(default_factory=list)


class SampleMapping:
    """The mapping that ``[samples]`` describes.

    Args:
        settings: the table.
        message_bytes: longer messages are refused unread.

    >>> settings = SampleSettings(features=("t", "h"), label="rain", classes=2,
    ...                           scaling={"t": {"mean": 10, "scale": 5}})
    >>> mapped = SampleMapping(settings).map([b'{"t": 20, "h": 0.5, "rain": 1}', b'{"t": 20}'])
    >>> mapped.parts[0].x, mapped.wrong
    (array([[2. , 0.5]]), [(b'{"t": 20}', "field 'h' is missing")])
    """

    def __init__(self, settings: SampleSettings, message_bytes: int = 65_536) -> None:
        self.schema = settings.sample_schema
        self._settings, self._message_bytes = settings, message_bytes
        classes = settings.classes
        self._classes = (
            {name: number for number, name in enumerate(classes)}
            if isinstance(classes, tuple)
            else None
        )
        lines = [
            settings.scaling[f].line if f in settings.scaling else (0.0, 1.0)
            for f in settings.fields
        ]
        self._offset, self._scale = np.array(lines).T
        self._width = len(settings.fields) + 1  # features and label
        numbers = [*settings.fields, settings.label]
        names = self._names = [name for name in (settings.id, settings.time) if name is not None]
        nested = any("." in name for name in (*settings.fields, settings.label, *names))
        self._simple = not nested and not isinstance(settings.features, str)
        self._json_rows = json_rows(numbers, names)
        self._record_rows = record_rows(numbers, names)

    def map(self, messages: Sequence[Message]) -> Mapped:
        """Sort messages into samples, halves of samples, and dead letters, each in their order."""
        mapped = Mapped()
        if messages:
            self._sort(messages, mapped)
        return mapped

    def _sort(self, messages: Sequence[Message], mapped: Mapped) -> None:
        rows = self._all_at_once(messages)
        if rows is not None:
            mapped.parts.append(rows)
            return
        for usual, run in groupby(messages, self._is_usual):
            part = list(run)
            if not usual or len(messages) == 1:
                for message in part:
                    self._alone(message, mapped)
            else:
                # where all have their fields, a value is wrong: halve until it is alone
                half = len(part) // 2 if len(part) == len(messages) else 0
                for some in (part[:half], part[half:]):
                    if some:
                        self._sort(some, mapped)

    def _is_usual(self, message: Message) -> bool:
        try:
            return self._simple and bool(self._picked([message]))
        except NOT_USUAL:
            return False

    def _all_at_once(self, messages: Sequence[Message]) -> Rows | None:
        """The usual case: flat fields, all there, all right."""
        if not self._simple:
            return None
        try:
            picked = self._picked(messages)
            table = self._table(picked)
        except NOT_USUAL:
            return None
        if table.ndim != 2:
            return None
        x, y = self._scaled(table[:, :-1]), self._scaled_label(table[:, -1])
        if not self.schema.fit(x, y):
            return None
        named = [row[self._width :] for row in picked] if self._names else [()] * len(picked)
        return Rows(x, y, *self._named(named))

    def _picked(self, messages: Sequence[Message]) -> list[Row]:
        texts = [message for message in messages if isinstance(message, bytes)]
        if len(texts) < len(messages):
            return self._record_rows(messages)
        if max(map(len, texts)) > self._message_bytes:
            raise ValueError("one is too long to be read")
        return self._json_rows(texts)

    def _table(self, picked: list[Row]) -> NDArray[np.float64]:
        """Features and labels of all rows; a class's name is replaced by its number."""
        last = self._width - 1
        if self._classes is not None:
            numbers = self._classes
            return np.array([(*row[:last], numbers[row[last]]) for row in picked], np.float64)
        if self._names:
            return np.array([row[: self._width] for row in picked], np.float64)
        return np.array(picked, np.float64)

    def _alone(self, message: Message, mapped: Mapped) -> None:
        """One message that is not the usual case: is it right, half of a sample, or wrong?"""
        record = self._decode(message)
        if isinstance(record, str):
            mapped.wrong.append((message, record))
        else:
            self._one(record, message, mapped)

    def _decode(self, message: Message) -> Record | str:
        """The fields of a message, or what is wrong with it."""
        if not isinstance(message, bytes):  # a user's own source may yield anything
            if isinstance(message, Mapping):
                return message
            return f"a {type(message).__name__}, not a record"
        if len(message) > self._message_bytes:
            return f"{len(message)} bytes, at most {self._message_bytes}"
        try:
            record = from_json(message)
        except ValueError:
            return "not JSON"
        return record if isinstance(record, dict) else "not a JSON object"

    def _one(self, record: Record, message: Message, mapped: Mapped) -> None:
        """One message by itself; with late labels either half may be missing."""
        missing = [f for f in self._settings.fields if _find(record, f) is None]
        label = _find(record, self._settings.label)
        ids, times = self._named([tuple(_find(record, name) for name in self._names)])
        late = self._settings.late_labels > 0 and ids[0] is not None
        try:
            if missing and not (late and label is not None):
                raise ValueError(f"field {missing[0]!r} is missing")
            if label is None and not late:
                raise ValueError(f"field {self._settings.label!r} is missing")
            x = None if missing else self._features(record)
            y = None if label is None else self._label(label)
        except _NUMBER_ERRORS as error:
            mapped.wrong.append((message, str(error)))
            return
        mapped.parts.append(Rows(x, y, ids, times))

    def _features(self, record: Record) -> NDArray[np.float64]:
        values = [_find(record, name) for name in self._settings.fields]
        try:
            array = np.array(values, np.float64)
        except _NUMBER_ERRORS:
            raise ValueError("a feature is no number") from None
        single = isinstance(self._settings.features, str)
        if single and array.shape[1:] != self.schema.features:
            raise ValueError(
                f"features of shape {array.shape[1:]}, expected {self.schema.features}"
            )
        if not single and array.ndim != 1:
            raise ValueError("a feature is no single number")
        x = self._scaled(array if single else array[None])
        problem = self.schema.feature_problem(x[0])
        if problem is not None:
            raise ValueError(problem)
        return x

    def _label(self, label: Any) -> NDArray[np.float64]:
        try:
            number = float(label if self._classes is None else self._classes[label])
        except (KeyError, *_NUMBER_ERRORS):
            words = "no number" if self._classes is None else "none of the classes"
            raise ValueError(f"label {label!r:.40} is {words}") from None
        y = self._scaled_label(np.array([number]))
        problem = self.schema.label_problem(float(y[0]))
        if problem is not None:
            raise ValueError(problem)
        return y

    def _scaled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        if not self._settings.scaling:
            scaled = values
        elif isinstance(self._settings.features, str):
            scaled = (values - self._offset[0]) / self._scale[0]
        else:
            scaled = (values - self._offset) / self._scale
        return scaled.reshape(len(values), *self.schema.features)

    def _scaled_label(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        scaling = self._settings.scaling.get(self._settings.label)
        if scaling is None:
            return values
        offset, scale = scaling.line
        return (values - offset) / scale

    def _named(self, values: Sequence[Row]) -> tuple[list[str | None], list[float | None]]:
        """Ids and times, from those of the two that the settings name, in this order."""
        ids: list[str | None] = [None] * len(values)
        times: list[float | None] = [None] * len(values)
        if self._settings.id is not None:
            ids = [_text(row[0]) for row in values]
        if self._settings.time is not None:
            times = [_seconds(row[-1]) for row in values]
        return ids, times


def _find(record: Record, name: str) -> Any:
    """A field, in nested objects if its name has dots; None if it is not there or empty."""
    if name in record:
        value = record[name]
        return None if _is_empty(value) else value
    part: Any = record
    for key in name.split("."):
        part = part.get(key) if isinstance(part, Mapping) else None
    return part


def _is_empty(value: Any) -> bool:
    # an array, which a function may yield, cannot be compared with a text
    return isinstance(value, str) and not value


def _text(value: Any) -> str | None:
    if value is None or _is_empty(value):
        return None
    # a function may yield half a surrogate pair, which no file can store
    return str(value)[:200].encode(errors="replace").decode()


def _seconds(value: Any) -> float | None:
    """A time that can be believed, or None: the moment of arrival is taken then."""
    try:
        seconds = float(value)
    except _NUMBER_ERRORS:
        return None
    return seconds if 0 <= seconds < 1e11 else None
