"""Metrics: how good answers are, client by client.

A metric is a function (outputs, labels) -> one number per sample; a client's value is the mean over
its test samples. One that is no mean, such as R², is a :class:`Metric` that says how a client's
value follows from sums over its samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from headwater.errors import InputError
from headwater.learning.losses import (
    Loss,
    aligned,
    binary,
    counted,
    cross_entropy,
    squared_error,
)
from headwater.ledger.holdings import Counts
from headwater.randomness import Floats

PerSample = Callable[[Tensor, Tensor], Tensor]
Combine = Callable[[Floats, Counts], Floats]
Better = Literal["higher", "lower"]


def accuracy(output: Tensor, target: Tensor) -> Tensor:
    """The fraction of right predictions of each sample: 0 or 1, or a sequence's mean.

    >>> accuracy(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))
    tensor([1., 0.])
    """
    if binary(output):
        return ((output.reshape(len(output)) > 0) == (target > 0.5)).float()
    right = (output.argmax(-1) == target).float()
    if right.ndim == 1:
        return right
    return right.flatten(1).sum(1) / counted(target)


def absolute_error(output: Tensor, target: Tensor) -> Tensor:
    """The absolute error of each sample; the mean of them where a sample has several numbers.

    >>> absolute_error(torch.tensor([[1.0], [2.0]]), torch.tensor([1.0, 4.0]))
    tensor([0., 2.])
    """
    return (aligned(output, target) - target).abs().reshape(len(target), -1).mean(1)


def mean(sums: Floats, counts: Counts) -> Floats:
    """The mean over each client's samples."""
    return np.asarray(sums[:, 0] / counts)


@dataclass(frozen=True)
class Metric:
    """A metric whose better end is known, or that is no mean over samples.

    Attributes:
        of: (outputs, labels) -> one number per sample, or a row of numbers.
        better: "higher" or "lower", which says who the worst clients are; None: nobody knows.
        combine: (sums of the rows, numbers of samples), one row per client -> one value per client;
            NaN where the value does not exist.

    Example:
        >>> top = Metric(accuracy, better="higher")
        >>> run = hw.simulate(model, clients, metrics={"top": top})  # doctest: +SKIP
    """

    of: PerSample
    better: Better | None = None
    combine: Combine = mean

    def __post_init__(self) -> None:
        if not callable(self.of):
            raise InputError(f"Metric(of): a function of outputs and labels; got {self.of!r}")
        if self.better not in ("higher", "lower", None):
            raise InputError(f"Metric(better): 'higher' or 'lower'; got {self.better!r}")


def _square_terms(output: Tensor, target: Tensor) -> Tensor:
    """(y − f)², y and y² of each number of each sample, in double precision: y² − ȳ² cancels."""
    y = target.double().reshape(len(target), -1)
    error = aligned(output, target).double().reshape(len(target), -1) - y
    return torch.cat([error.square(), y, y.square()], 1)


def _explained(sums: Floats, counts: Counts) -> Floats:
    """1 − Σ(y − f)² / Σ(y − ȳ)², the mean over a sample's numbers; NaN for labels all alike."""
    errors, labels, squares = np.split(sums, 3, axis=1)
    # Σ(y − ȳ)² = Σy² − (Σy)²/n; what is left of equal labels is rounding, and no spread.
    spread = squares - labels**2 / counts[:, None]
    varied = spread > 1e-12 * np.maximum(squares, np.finfo(float).tiny)
    ratio = np.divide(errors, spread, where=varied, out=np.full_like(errors, np.nan))
    return np.asarray(1.0 - ratio.mean(1))


r2 = Metric(_square_terms, "higher", _explained)
"""R² of each client: 1 for perfect answers, 0 for those of the client's mean label."""

_BETTER: dict[PerSample, Better] = {
    accuracy: "higher",
    absolute_error: "lower",
    squared_error: "lower",
    cross_entropy: "lower",
}


def metrics_for(loss: Loss) -> dict[str, Metric]:
    """What is measured beside the loss unless told otherwise.

    >>> list(metrics_for(cross_entropy)), list(metrics_for(squared_error))
    (['accuracy'], ['mae', 'r2'])
    >>> metrics_for(lambda output, target: output - target)
    {}
    """
    if loss is cross_entropy:
        return {"accuracy": Metric(accuracy, "higher")}
    if loss is squared_error:
        return {"mae": Metric(absolute_error, "lower"), "r2": r2}
    return {}


def named_metrics(
    metrics: Mapping[str, PerSample | Metric] | None, loss: Loss
) -> dict[str, Metric]:
    """The metrics as given, or those that go with the loss."""
    if metrics is None:
        return metrics_for(loss)
    if not isinstance(metrics, Mapping):
        raise InputError(
            f"metrics: names and functions, as in {{'mae': hw.absolute_error}}; got {metrics!r}"
        )
    return {_name(name): _metric(name, given) for name, given in metrics.items()}


def _name(name: object) -> str:
    if not isinstance(name, str) or not name or name == "loss":
        raise InputError(f"metrics: names other than 'loss'; got {name!r}")
    return name


def _metric(name: str, given: PerSample | Metric) -> Metric:
    if isinstance(given, Metric):
        return given
    if not callable(given):
        raise InputError(
            f"metrics[{name!r}]: a function of outputs and labels that gives one number per "
            f"sample; got {given!r}"
        )
    return Metric(given, _BETTER.get(given))
