"""How good is a model? Accuracy and loss of each client on its own test samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from headwater.learning.engines.fused import comfortable_batch
from headwater.learning.federation import Part
from headwater.learning.losses import Loss, accuracy, cross_entropy
from headwater.learning.problem import Problem, chunks
from headwater.randomness import Floats

Metric = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Score:
    """One number a client: mean accuracy and mean loss on its test samples."""

    accuracy: Floats
    loss: Floats


def evaluate(
    model: nn.Module,
    part: Part,
    loss: Loss = cross_entropy,
    metric: Metric = accuracy,
    batch: int | None = None,
) -> Score:
    """Test a model on every client's samples, all clients in one pass; ``batch`` samples at a
    time."""
    problem = Problem(model, part.x, part.y, part.row_tensor, loss)
    kind = next((p.dtype for p in model.parameters()), torch.float32)
    was_training = model.training
    model.eval()
    right, losses = [], []
    with torch.no_grad():
        for piece in chunks(int(part.offsets[-1]), batch or comfortable_batch(problem)):
            x, y = problem.take(problem.where(np.arange(piece.start, piece.stop)))
            output = model(x.to(kind) if x.is_floating_point() else x)
            right.append(metric(output, y))
            losses.append(loss(output, y))
    model.train(was_training)
    return Score(_means(torch.cat(right), part), _means(torch.cat(losses), part))


def _means(values: Tensor, part: Part) -> Floats:
    """Client by client; NaN for a client without samples."""
    sums = np.diff(np.concatenate([[0.0], np.cumsum(values.double().numpy())])[part.offsets])
    return np.divide(sums, part.counts, where=part.counts > 0, out=np.full(len(sums), np.nan))
