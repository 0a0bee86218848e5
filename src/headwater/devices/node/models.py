"""The model, loss and metric that ``[model]`` of NODE.toml describes."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import nn

from headwater.devices.memory.schema import Schema
from headwater.devices.settings import ModelSettings
from headwater.devices.settings.named import load
from headwater.errors import InputError
from headwater.learning import assumptions
from headwater.learning.losses import Loss, cross_entropy, squared_error
from headwater.learning.metrics import PerSample, absolute_error, accuracy
from headwater.learning.problem import Problem

LOSSES: dict[str, Loss] = {"cross_entropy": cross_entropy, "squared_error": squared_error}
METRICS: dict[str, PerSample] = {"accuracy": accuracy, "absolute_error": absolute_error}


def build(schema: Schema, settings: ModelSettings) -> nn.Module:
    """The model. Its own parameters do not matter: the server's come with each request.

    >>> build(Schema.classes((2, 3), 4), ModelSettings(kind="perceptron", hidden=(5,)))
    Sequential(
      (0): Flatten(start_dim=1, end_dim=-1)
      (1): Linear(in_features=6, out_features=5, bias=True)
      (2): ReLU()
      (3): Linear(in_features=5, out_features=4, bias=True)
    )
    """
    if settings.make is not None:
        model = load(settings.make, "model.make")(**settings.arguments)
        if not isinstance(model, nn.Module):
            raise InputError(
                f"model.make: {settings.make} gives a {type(model).__name__}, not a torch.nn.Module"
            )
        return model
    classes = schema.label_type == "int64" and schema.high is not None
    outputs = int(schema.high or 0) + 1 if classes else 1
    hidden = settings.hidden if settings.kind == "perceptron" else ()
    widths = [math.prod(schema.features), *hidden, outputs]
    layers: list[nn.Module] = [nn.Flatten()] if len(schema.features) > 1 else []
    for wide, narrow in pairwise(widths):
        layers += [nn.Linear(wide, narrow), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def problem_of(schema: Schema, settings: ModelSettings) -> Problem:
    """Model and loss with two made-up samples, tried out: do they go with the schema?"""
    model = build(schema, settings)
    loss = _named(settings.loss, LOSSES, "model.loss")
    x, y = schema.corners()
    kind = next((p.dtype for p in model.parameters()), torch.float32)
    features = torch.from_numpy(x)
    problem = Problem(
        model,
        features.to(kind) if features.is_floating_point() else features,
        torch.from_numpy(y),
        loss=loss,
    )
    assumptions.check(problem)
    return problem


def metric_of(settings: ModelSettings) -> PerSample:
    """What is reported beside the loss."""
    metric: PerSample = _named(settings.metric, METRICS, "model.metric")
    return metric


def _named(name: str, known: dict[str, Loss], setting: str) -> Loss:
    if name in known:
        return known[name]
    if ":" not in name:
        raise InputError(f"{setting}: {', '.join(known)} or 'module:name'; got {name!r}")
    thing: Loss = load(name, setting)
    return thing
