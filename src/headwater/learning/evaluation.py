"""How good is a model? Loss and metrics of each client on its own test samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from headwater.errors import InputError
from headwater.learning.engines.fused import comfortable_batch
from headwater.learning.federation import Part
from headwater.learning.losses import Loss, cross_entropy
from headwater.learning.metrics import Better, Metric, PerSample, named_metrics
from headwater.learning.problem import Problem, chunks, known_device, own_copy, precision_of
from headwater.ledger.holdings import Counts
from headwater.randomness import Floats

_TENTH = 0.1  # of the clients are "the worst"


@dataclass(frozen=True)
class Score:
    """Loss and metrics, one number per client.

    Attributes:
        values: "loss" and each metric's name -> one number per client; NaN for a client without
            test samples, or where the metric does not exist (R² of labels that are all alike).
        failed: "loss" and each metric's name -> the clients for which NaN or infinity came out.
        better: which end of a metric is the better one, where that is known.
    """

    values: Mapping[str, Floats]
    failed: Mapping[str, Counts]
    better: Mapping[str, Better]

    def __getitem__(self, name: str) -> Floats:
        """One number per client."""
        return self.values[name]

    @property
    def loss(self) -> Floats:
        """Mean loss on each client's test samples."""
        return self.values["loss"]

    @property
    def accuracy(self) -> Floats:
        """Mean accuracy on each client's test samples, if that is a metric here."""
        return self.values["accuracy"]

    @property
    def failed_clients(self) -> Counts:
        """The clients whose loss or a metric of whom is NaN or infinite."""
        return np.unique(np.concatenate(list(self.failed.values())))

    def mean(self, name: str) -> float:
        """The mean over the clients that have a value; NaN if it failed for one of them.

        To leave out a client for which the model fails would flatter the model.
        """
        values = self.values[name]
        if len(self.failed[name]):
            return float(values[self.failed[name]].sum())
        there = values[~np.isnan(values)]
        return float(there.mean()) if len(there) else math.nan

    def worst(self, name: str) -> float | None:
        """The mean over the worst tenth of the clients, at least one; None: nobody knows.

        It takes more than one client, and a metric whose better end is known.
        """
        values = self.values[name][~np.isnan(self.values[name])]
        if name not in self.better or len(values) < 2 or len(self.failed[name]):
            return None
        ranked = np.sort(values if self.better[name] == "higher" else -values)
        few = ranked[: math.ceil(_TENTH * len(ranked))]
        return float(few.mean() if self.better[name] == "higher" else -few.mean())


def evaluate(
    model: nn.Module,
    part: Part,
    loss: Loss = cross_entropy,
    metrics: Mapping[str, PerSample | Metric] | None = None,
    batch: int | None = None,
    device: torch.device | str | None = None,
) -> Score:
    """Test a model on every client's samples, all clients in one pass.

    Args:
        model: any module; it is not changed, and does not drop out.
        part: the clients' test samples, as in ``federation.test``.
        loss: (outputs, labels) -> one number per sample.
        metrics: names and metrics; None: those that go with the loss (cross-entropy: accuracy;
            squared error: mae and r2).
        batch: how many samples to take at a time; None: by the size of the model.
        device: where to compute, such as "cuda"; None: where the model is.

    Returns:
        One number per client for the loss and each metric.
    """
    if device is not None:
        model = own_copy(model).to(known_device(device))
    # The loss is measured like any metric, so all of them come from the same forward pass.
    measured = {"loss": Metric(loss, "lower"), **named_metrics(metrics, loss)}
    problem = Problem(model, part.x, part.y, part.row_tensor, loss)
    terms: dict[str, list[Tensor]] = {name: [] for name in measured}
    with torch.no_grad(), _evaluating(model):
        for piece in chunks(int(part.offsets[-1]), batch or comfortable_batch(problem)):
            output, y = _answers(problem, piece)
            for name, metric in measured.items():
                terms[name].append(_rows(metric.of(output, y), len(y), name))
    return _score(measured, {name: torch.cat(found) for name, found in terms.items()}, part)


def _answers(problem: Problem, piece: slice) -> tuple[Tensor, Tensor]:
    """Outputs and labels of some samples, in the model's precision."""
    kind = precision_of(problem.model)
    place = next((p.device for p in problem.model.parameters()), problem.device)
    x, y = (
        values.to(place, kind if values.is_floating_point() else None)
        for values in problem.take(problem.where(np.arange(piece.start, piece.stop)))
    )
    return problem.model(x), y


def _rows(found: Tensor, count: int, name: str) -> Tensor:
    """A table with one row per sample, in double precision."""
    if not isinstance(found, Tensor) or not found.ndim or len(found) != count:
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise InputError(f"metrics[{name!r}]: one number per sample, shape ({count},); got {shape}")
    return found.cpu().double().reshape(count, -1)


def _score(measured: Mapping[str, Metric], terms: Mapping[str, Tensor], part: Part) -> Score:
    there = part.counts > 0
    values, failed = {}, {}
    for name, metric in measured.items():
        sums = _sums(terms[name].numpy(), part)
        # The sums tell a model that fails from a value that does not exist, such as R² of equals.
        broken = there & ~np.isfinite(sums).all(1)
        with np.errstate(invalid="ignore"):  # what failed stays so, and is named
            found = np.full(len(there), np.nan)
            found[there] = metric.combine(sums[there], part.counts[there])
        values[name], failed[name] = found, np.flatnonzero(broken)
    better = {name: m.better for name, m in measured.items() if m.better is not None}
    return Score(values, failed, better)


def _sums(rows: Floats, part: Part) -> Floats:
    """The sum of each client's rows: client by client, so that one NaN stays with its client."""
    sums = np.zeros((len(part.counts), rows.shape[1]))
    there = np.flatnonzero(part.counts)
    if len(there):
        sums[there] = np.add.reduceat(rows, part.offsets[there], axis=0)
    return sums


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """All of a model in evaluation mode; afterwards every part is as it was."""
    before = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in before.items():
            module.training = training
