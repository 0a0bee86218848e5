"""``[samples]`` of NODE.toml: which fields of a message are features and label."""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from headwater.devices.memory.schema import FeatureType, Schema

Whole = Annotated[int, Field(ge=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Scaling(BaseModel):
    """How a field becomes a feature: (value − mean) / scale, or range → 0 … 1.

    >>> Scaling(range=(10, 30)).line
    (10.0, 20.0)
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    mean: Finite | None = None
    scale: Finite | None = None
    range: tuple[Finite, Finite] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.range is None) == (self.mean is None and self.scale is None):
            raise ValueError("either mean and scale, or range = [low, high]")
        if self.scale == 0:
            raise ValueError("scale: what is divided by, so not 0; leave it out for 1")
        if self.range is not None and self.range[0] >= self.range[1]:
            raise ValueError(f"range: [low, high] with low below high; got {list(self.range)}")
        return self

    @property
    def line(self) -> tuple[float, float]:
        """What is taken off, and what is divided by."""
        if self.range is not None:
            return float(self.range[0]), float(self.range[1] - self.range[0])
        return float(self.mean or 0.0), float(1.0 if self.scale is None else self.scale)


class SampleSettings(BaseModel):
    """``[samples]``: from the fields of a message to a sample.

    Attributes:
        features: names of fields in the order of the model's inputs, or one field that has an
            array. Dots lead into nested objects: "sensor.temperature".
        shape: of a sample's features; unless given, one number per field.
        type: how features are stored.
        label: the field with the label.
        classes: their number, or their names in order; None: the label is a number.
        label_range: least and greatest label that is believed.
        id: the field with the sample's name, needed for late labels and for ``once``.
        time: the field with the arrival time, in seconds since 1970.
        scaling: by field, the label's too.
        late_labels: how many samples may wait for a label that comes in a message of its own, with
            the same id; 0: a sample without a label is malformed.
        once: how many of the newest ids are remembered, so that a sample that comes again, as its
            sender does not know whether it got through, is taken once; 0: all that come are taken.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    features: tuple[str, ...] | str
    label: str
    shape: tuple[Whole, ...] | None = None
    type: FeatureType = "float32"
    classes: Annotated[int, Field(ge=2)] | tuple[str, ...] | None = None
    label_range: tuple[Finite, Finite] | None = None
    id: str | None = None
    time: str | None = None
    scaling: dict[str, Scaling] = {}
    late_labels: Annotated[int, Field(ge=0)] = 0
    once: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        fields = self.fields
        if not fields or len(set(fields)) != len(fields):
            raise ValueError("features: at least one field, none twice")
        if isinstance(self.features, str) and self.shape is None:
            raise ValueError(
                f"features: one field with a number is a list, features = [{self.features!r}]; one "
                "that has an array needs its shape, as in shape = [3, 32, 32]"
            )
        shape_is_free = isinstance(self.features, str)
        if not shape_is_free and self.shape and math.prod(self.shape) != len(fields):
            raise ValueError(f"shape: {self.shape} does not have {len(fields)} places")
        if self.late_labels and self.id is None:
            raise ValueError("id: late labels are joined by it; name the field")
        if self.once and self.id is None:
            raise ValueError("id: once knows samples again by it; name the field")
        unknown = set(self.scaling) - {*fields, self.label}
        if unknown:
            raise ValueError(f"scaling: {sorted(unknown)} are not among features and label")
        return self._check_label()

    def _check_label(self) -> Self:
        if self.classes is not None and (self.label_range or self.label in self.scaling):
            raise ValueError("classes: they have no range and no scaling")
        if isinstance(self.classes, tuple) and len(set(self.classes)) < max(2, len(self.classes)):
            raise ValueError("classes: at least two names, none twice")
        if self.label_range is not None and self.label_range[0] > self.label_range[1]:
            raise ValueError("label_range: low, then high")
        return self

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that features are made of."""
        return (self.features,) if isinstance(self.features, str) else self.features

    @property
    def meaning(self) -> dict[str, Any]:
        """What a stored number means, so that a memory is never read with another meaning.

        >>> SampleSettings(features=("t",), label="y", scaling={"t": {"range": (10, 30)}}).meaning
        {'features': ['t'], 'label': 'y', 'classes': None, 'scaling': {'t': [10.0, 20.0]}}
        """
        lines = {name: list(self.scaling[name].line) for name in sorted(self.scaling)}
        return {
            "features": list(self.fields),
            "label": self.label,
            "classes": list(self.classes) if isinstance(self.classes, tuple) else self.classes,
            # a scaling that changes nothing is none
            "scaling": {name: line for name, line in lines.items() if line != [0.0, 1.0]},
        }

    @property
    def sample_schema(self) -> Schema:
        """The form of the samples."""
        shape = self.shape or (len(self.fields),)
        if self.classes is not None:
            count = self.classes if isinstance(self.classes, int) else len(self.classes)
            return Schema(shape, self.type, "int64", 0, count - 1)
        low, high = self._scaled_range()
        return Schema(shape, self.type, "float32", low, high)

    def _scaled_range(self) -> tuple[float | None, float | None]:
        """The label's range as it is stored, after scaling."""
        if self.label_range is None:
            return None, None
        offset, scale = self.scaling[self.label].line if self.label in self.scaling else (0.0, 1.0)
        ends = sorted((end - offset) / scale for end in self.label_range)
        return ends[0], ends[1]
