"""What a sample looks like: the shape and type of features and label, and the label's range."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError

FeatureType = Literal["float32", "float64", "int64"]
LabelType = Literal["int64", "float32"]


@dataclass(frozen=True)
class Schema:
    """The form of a client's samples. A memory keeps it, and nothing else enters.

    Attributes:
        features: shape of one sample's features.
        feature_type: how a feature is stored.
        label_type: int64 for classes, float32 for numbers.
        low, high: the label's range, both ends included; None: no limit.

    >>> schema = Schema.classes((3,), 2)
    >>> schema.problem(np.zeros(3), 2)
    'label 2 above 1'
    """

    features: tuple[int, ...]
    feature_type: FeatureType = "float32"
    label_type: LabelType = "int64"
    low: float | None = None
    high: float | None = None

    @classmethod
    def classes(cls, features: tuple[int, ...], count: int) -> Schema:
        """Labels are the classes 0 … count − 1."""
        return cls(features, low=0, high=count - 1)

    @property
    def width(self) -> int:
        """Features of one sample."""
        return math.prod(self.features)

    def problem(self, x: NDArray[Any], y: float) -> str | None:
        """Why a sample does not fit; None: it fits."""
        return self.feature_problem(x) or self.label_problem(y)

    def feature_problem(self, x: NDArray[Any]) -> str | None:
        """Why features do not fit; None: they fit."""
        if x.shape != self.features:
            return f"features of shape {x.shape}, expected {self.features}"
        if not self._storable(x, self.feature_type):
            return f"a feature is NaN, infinite, or not to be stored as {self.feature_type}"
        return None

    def label_problem(self, y: float) -> str | None:
        """Why a label does not fit; None: it fits."""
        if isinstance(y, bool) or not isinstance(y, int | float | np.number):
            return f"label {y!r:.40} is no number"
        if not self._storable(np.asarray(y, np.float64), "float32"):
            return "the label is NaN or infinite"
        if self.label_type == "int64" and not float(y).is_integer():
            return f"label {y:g} is no whole number"
        if self.low is not None and y < self.low:
            return f"label {y:g} below {self.low:g}"
        if self.high is not None and y > self.high:
            return f"label {y:g} above {self.high:g}"
        return None

    def fit(self, x: NDArray[Any], y: NDArray[Any]) -> bool:
        """Do all these samples fit? One pass over arrays, for the many that are right."""
        whole = self.label_type != "int64" or bool((y == np.floor(y)).all())
        return (
            x.shape == (len(y), *self.features)
            and y.ndim == 1
            and self._storable(x, self.feature_type)
            and self._storable(y, "float32")
            and whole
            and (self.low is None or bool((y >= self.low).all()))
            and (self.high is None or bool((y <= self.high).all()))
        )

    def _storable(self, values: NDArray[Any], kind: FeatureType) -> bool:
        """Finite, and still so as it is stored: 1e300 is a number, but no float32."""
        if kind == "int64":
            whole = np.isfinite(values) & (values == np.floor(values))
            return bool((whole & (np.abs(values) < 2.0**53)).all())
        with np.errstate(over="ignore"):
            return bool(np.isfinite(values.astype(kind)).all())

    def arrays(self, x: Any, y: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Features and labels as they are stored, little-endian and contiguous."""
        kinds = (np.dtype(kind).newbyteorder("<") for kind in (self.feature_type, self.label_type))
        feature_kind, label_kind = kinds
        return np.ascontiguousarray(x, feature_kind), np.ascontiguousarray(y, label_kind)

    def read(self, x: Sequence[bytes], y: Sequence[bytes]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Stored samples as arrays: the blobs are copied once, one after the other."""
        # a bytearray, so that the arrays can be written to and PyTorch takes them without a copy
        features = np.frombuffer(bytearray().join(x), np.dtype(self.feature_type))
        labels = np.frombuffer(bytearray().join(y), np.dtype(self.label_type))
        return features.reshape(len(y), *self.features), labels

    def corners(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Two samples with the least and the greatest label, to try a model on."""
        low = 0.0 if self.low is None else self.low
        high = low if self.high is None else self.high
        return self.arrays(np.zeros((2, *self.features)), np.array([low, high]))

    def to_json(self) -> str:
        """For the memory's file and for the server."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """What ``to_json`` wrote."""
        content = json.loads(text)
        return cls(**{**content, "features": tuple(content["features"])})

    def check_same(self, other: Schema, where: str) -> None:
        """Refuse a memory that was filled with other samples."""
        for name, mine in asdict(self).items():
            theirs = getattr(other, name)
            if mine != theirs:
                raise InputError(
                    f"{where}: its samples have {name} = {theirs!r}, the settings say {mine!r}; "
                    "put the setting back, or name another memory file"
                )
