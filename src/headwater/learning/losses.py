"""Losses and accuracies per sample."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional

from headwater.errors import InputError

Loss = Callable[[Tensor, Tensor], Tensor]
IGNORED = -1  # a target that does not count: padding


def cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of each sample.

    Takes logits (n, classes) with labels (n,); one logit a sample, (n,) or (n, 1), with labels 0
    and 1; or a sequence's logits (n, length, classes) with labels (n, length), of which those equal
    to −1 do not count and the others are averaged.

    >>> import torch
    >>> cross_entropy(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor([1.3863, 1.3863])
    """
    if _binary(output):
        return functional.binary_cross_entropy_with_logits(
            output.reshape(len(output)), target.to(output.dtype), reduction="none"
        )
    if output.ndim == 2:
        return functional.cross_entropy(output, target, reduction="none")
    each = functional.cross_entropy(
        output.flatten(0, -2), target.flatten(), reduction="none", ignore_index=IGNORED
    )
    return each.view(target.shape).flatten(1).sum(1) / (target != IGNORED).flatten(1).sum(1).clamp(
        min=1
    )


def accuracy(output: Tensor, target: Tensor) -> Tensor:
    """The fraction of right predictions of each sample: 0 or 1, or a sequence's mean.

    >>> import torch
    >>> accuracy(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))
    tensor([1., 0.])
    """
    if _binary(output):
        return ((output.reshape(len(output)) > 0) == (target > 0.5)).float()
    right = (output.argmax(-1) == target).float()
    if right.ndim == 1:
        return right
    return right.flatten(1).sum(1) / (target != IGNORED).flatten(1).sum(1).clamp(min=1)


def check_labels(output: Tensor, labels: Tensor) -> None:
    """Are these labels that cross-entropy can take with such outputs?"""
    if labels.is_floating_point() and not _binary(output):
        return  # shares of the classes, or refused by the loss itself
    classes = 2 if _binary(output) else output.shape[-1]
    least = IGNORED if output.ndim > 2 else 0
    low, high = (limit.item() for limit in labels.aminmax())
    if low < least or high >= classes:
        raise InputError(
            f"labels: {classes} classes, numbered from 0 to {classes - 1}; Client(y) goes from "
            f"{low:g} to {high:g}"
        )


def _binary(output: Tensor) -> bool:
    return output.ndim == 1 or (output.ndim == 2 and output.shape[1] == 1)
