"""The usual message, read quickly: a flat JSON object with a number in every field that is needed.

A message becomes one tuple: features, label, id, time. Nothing else of it is ever made into a
Python object: msgspec, if it is installed, fills a structure that has just these fields. Without it
pydantic's reader makes a dictionary of the message, and the fields are picked from that.

Whatever is not usual (a field is missing, nested, no number) raises one of ``NOT_USUAL``, and is
left to whoever looks at a message by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from operator import itemgetter
from types import ModuleType
from typing import Any

from pydantic_core import from_json

# not installed: reading takes longer, the rows are the same
msgspec = import_module("msgspec") if find_spec("msgspec") else None
Row = tuple[Any, ...]  # features, label, id, time: as the sender wrote them, not yet checked
Rows = list[Row]
NOT_USUAL = (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError)


def json_rows(numbers: Sequence[str], names: Sequence[str]) -> Callable[[Sequence[bytes]], Rows]:
    """A function from messages to their rows.

    Args:
        numbers: fields that must be there.
        names: fields that may be missing; None stands for them then.

    >>> json_rows(["t", "y"], ["id"])([b'{"y": 1, "unit": "K", "t": 20}'])
    [(20, 1, None)]
    >>> json_rows(["t", "y"], ["t"])([b'{"y": 1, "t": 20}'])
    [(20, 1, 20)]
    """
    fields = [*numbers, *names]
    # a structure has no field twice, but a time may well be a feature, too
    if msgspec is not None and len(set(fields)) == len(fields):
        return _typed(msgspec, numbers, names)
    pick = record_rows(numbers, names)
    return lambda messages: pick(map(from_json, messages))


def record_rows(numbers: Sequence[str], names: Sequence[str]) -> Callable[[Iterable[Any]], Rows]:
    """The same for messages that are dictionaries already.

    >>> record_rows(["t", "y"], ["id"])([{"y": 1, "t": 20, "id": "a"}])
    [(20, 1, 'a')]
    """
    pick = itemgetter(*numbers)  # at least a feature and a label: always a tuple
    if not names:
        return lambda records: [pick(record) for record in records]
    return lambda records: [(*pick(record), *map(record.get, names)) for record in records]


def _typed(
    msgspec: ModuleType, numbers: Sequence[str], names: Sequence[str]
) -> Callable[[Sequence[bytes]], Rows]:
    """By a structure that is made for these fields: other fields are skipped, not built."""
    fields = [f"f{k}" for k in range(len(numbers) + len(names))]
    kinds: list[Any] = [(field, Any) for field in fields[: len(numbers)]]
    kinds += [(field, Any, None) for field in fields[len(numbers) :]]
    renamed = dict(zip(fields, [*numbers, *names], strict=True))
    # gc=False: a row lives for a batch and is in no cycle
    structure = msgspec.defstruct("Row", kinds, rename=renamed, gc=False)
    decode, as_tuple = msgspec.json.Decoder(structure).decode, msgspec.structs.astuple
    return lambda messages: list(map(as_tuple, map(decode, messages)))
