"""What travels between the server and the clients, as Flower's records.

    train     server: arrays θ(t), config {header, positions, weights};  client: arrays θ_m, metrics
    evaluate  server: arrays θ, config {header};                         client: metrics
    describe  server: config {header};                                   client: config {header}

A client answers in Flower's convention, with its own parameters θ_m and not with its move θ_m − θ:
Flower's own modifiers (clipping, differential privacy) and strategies then work on it. Headers are
JSON and arrays are plain bytes with a dtype: nothing that comes in can be executed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from numpy.typing import NDArray

from headwater.errors import InputError

Vector = NDArray[Any]
TRAIN, EVALUATE, DESCRIBE = "train", "evaluate", "query.describe"
_HEADS = 1 << 20  # bytes around the numbers of an update
REFUSED, AWAY = 100, 101
"""Codes of our own errors: the node refused a request; the node could not be reached."""


def flatten(arrays: ArrayRecord) -> Vector:
    """All arrays of a model as one vector, in the record's order.

    >>> flatten(ArrayRecord([np.ones((2, 1), np.float32), np.zeros(1, np.float32)]))
    array([1., 1., 0.], dtype=float32)
    """
    parts = arrays.to_numpy_ndarrays()
    kinds = sorted({str(part.dtype) for part in parts})
    if len(kinds) != 1 or kinds[0] not in ("float32", "float64"):
        raise InputError(
            f"the model's arrays must all be float32 or all float64; found {', '.join(kinds)}"
        )
    return np.concatenate([part.reshape(-1) for part in parts])


def unflatten(vector: Vector, like: ArrayRecord) -> ArrayRecord:
    """A vector as named arrays with the names and shapes of another record."""
    named, start = {}, 0
    for name, array in like.items():
        size = int(np.prod(array.shape, dtype=np.int64))
        named[name] = Array(vector[start : start + size].reshape(array.shape))
        start += size
    return ArrayRecord(named)


def request(
    header: Mapping[str, object],
    arrays: ArrayRecord | None = None,
    positions: NDArray[np.int64] | None = None,
    weights: NDArray[np.float64] | None = None,
    more: ConfigRecord | None = None,
) -> RecordDict:
    """A request to a client; ``more`` are settings of the user's own."""
    config = ConfigRecord(dict(more or {}))
    config["header"] = json.dumps(header, allow_nan=False)
    if positions is not None and weights is not None:
        config["positions"] = positions.astype("<i8").tobytes()
        config["weights"] = weights.astype("<f8").tobytes()
    records: dict[str, Any] = {"config": config}
    if arrays is not None:
        records["arrays"] = arrays
    return RecordDict(records)


def header_of(content: RecordDict) -> dict[str, Any]:
    """The header of a request or of a description."""
    config = content.config_records.get("config")
    text = None if config is None else config.get("header")
    if not isinstance(text, str):
        raise InputError("the message has no header; is the other side a headwater app?")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the message's header is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError("the message's header is no JSON object")
    return found


def selection_of(content: RecordDict) -> dict[str, Vector]:
    """Positions and weights of a request, where it has them."""
    config = content.config_records["config"]
    kinds = {"positions": "<i8", "weights": "<f8"}
    found = {name: config[name] for name in kinds if name in config}
    return {
        name: np.frombuffer(data, kinds[name])
        for name, data in found.items()
        if isinstance(data, bytes)
    }


def arrays_of(content: RecordDict) -> ArrayRecord:
    """The one array record of a message."""
    records = list(content.array_records.values())
    if len(records) != 1:
        raise InputError(f"one array record expected; the message has {len(records)}")
    return records[0]


def update_of(content: RecordDict, like: Vector) -> Vector:
    """The parameters that a client sends, as one vector, if there are not far too many of them.

    Args:
        content: of its reply.
        like: the parameters that it was sent.
    """
    arrays = arrays_of(content)
    # Before anything of that size is copied; each array has a head of some hundred bytes.
    size = sum(len(array.data) for array in arrays.values())
    if size > 2 * like.nbytes + _HEADS:
        raise InputError(f"an update of {size:,} bytes; the model has {like.nbytes:,}")
    try:
        return flatten(arrays)
    except InputError:
        raise
    except Exception as error:
        # Made by who knows whom: it may claim a shape that no memory can hold, or be no array.
        raise InputError(f"arrays that cannot be read: {type(error).__name__}") from error


def metrics_of(message: Message) -> dict[str, float]:
    """The finite numbers that a client reported; anything else is left out."""
    records = message.content.metric_records.values()
    return {
        key: float(value)
        for record in records
        for key, value in record.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def metrics(header: Mapping[str, Any]) -> MetricRecord:
    """The numbers of a node's reply; what the node does not know is left out."""
    numbers: dict[str, int | float] = {}
    for key, value in _flat(header):
        if isinstance(value, int | float) and not isinstance(value, bool):
            numbers[key] = value
    return MetricRecord(dict(numbers))


def _flat(header: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested numbers with joined names: {"prequential": {"loss": 1}} is "prequential-loss": 1."""
    pairs: list[tuple[str, Any]] = []
    for key, value in header.items():
        if isinstance(value, Mapping):
            pairs += _flat(value, f"{prefix}{key}-")
        else:
            pairs.append((f"{prefix}{key}", value))
    return pairs
