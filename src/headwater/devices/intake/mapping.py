"""From messages to samples: fields picked, scaled, checked; what does not fit is named.

A message is bytes with a JSON object, or a record that a source has taken apart already. Many
messages are mapped at once: right ones, the usual case, cost one pass over arrays, and only a batch
with a wrong one in it is looked at message by message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

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
        names = settings.classes
        self._classes = (
            {name: number for number, name in enumerate(names)}
            if isinstance(names, tuple)
            else None
        )
        lines = [
            settings.scaling[f].line if f in settings.scaling else (0.0, 1.0)
            for f in settings.fields
        ]
        self._offset, self._scale = np.array(lines).T
        nested = any("." in name for name in settings.fields)
        self._simple = not nested and not isinstance(settings.features, str)
        self._pick = itemgetter(*settings.fields, settings.label)

    def map(self, messages: Sequence[Message]) -> Mapped:
        """Sort messages into samples, halves of samples, and dead letters, each in their order."""
        mapped = Mapped()
        decoded = [self._decode(message) for message in messages]
        rows = self._all_at_once([record for record in decoded if not isinstance(record, str)])
        if rows is not None:
            mapped.parts.append(rows)
        for message, record in zip(messages, decoded, strict=True):
            if isinstance(record, str):
                mapped.wrong.append((message, record))
            elif rows is None:
                self._one(record, message, mapped)
        return mapped

    def _decode(self, message: Message) -> Record | str:
        """The fields of a message, or what is wrong with it."""
        if not isinstance(message, bytes):  # a user's own source may yield anything
            if isinstance(message, Mapping):
                return message
            return f"a {type(message).__name__}, not a record"
        if len(message) > self._message_bytes:
            return f"{len(message)} bytes, at most {self._message_bytes}"
        try:
            record = from_json(message)  # four times as fast as the standard library's
        except ValueError:
            return "not JSON"
        return record if isinstance(record, dict) else "not a JSON object"

    def _all_at_once(self, records: list[Record]) -> Rows | None:
        """The usual case: flat fields, all there, all right."""
        if not records or not self._simple:
            return None
        try:
            picked = [self._pick(record) for record in records]
            if self._classes is not None:
                picked = [(*row[:-1], self._classes[row[-1]]) for row in picked]
            table = np.array(picked, np.float64)
        except (KeyError, *_NUMBER_ERRORS):
            return None
        if table.ndim != 2:
            return None
        x, y = self._scaled(table[:, :-1]), self._scaled_label(table[:, -1])
        if not self.schema.fit(x, y):
            return None
        ids, times = self._names(records)
        return Rows(x, y, ids, times)

    def _one(self, record: Record, message: Message, mapped: Mapped) -> None:
        """One message by itself; with late labels either half may be missing."""
        missing = [f for f in self._settings.fields if _find(record, f) is None]
        label = _find(record, self._settings.label)
        ids, times = self._names([record])
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

    def _names(self, records: list[Record]) -> tuple[list[str | None], list[float | None]]:
        id_field, time_field = self._settings.id, self._settings.time
        ids: list[str | None] = [None] * len(records)
        times: list[float | None] = [None] * len(records)
        if id_field is not None:
            ids = [_text(_find(record, id_field)) for record in records]
        if time_field is not None:
            times = [_seconds(_find(record, time_field)) for record in records]
        return ids, times


def _find(record: Record, name: str) -> Any:
    """A field, in nested objects if its name has dots; None if it is not there or empty."""
    if name in record:
        value = record[name]
        return None if value == "" else value
    part: Any = record
    for key in name.split("."):
        part = part.get(key) if isinstance(part, Mapping) else None
    return part


def _text(value: Any) -> str | None:
    # a function may yield half a surrogate pair, which no file can store
    return None if value is None else str(value)[:200].encode(errors="replace").decode()


def _seconds(value: Any) -> float | None:
    """A time that can be believed, or None: the moment of arrival is taken then."""
    try:
        seconds = float(value)
    except _NUMBER_ERRORS:
        return None
    return seconds if 0 <= seconds < 1e11 else None
