"""Losses: one number per sample."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional

from headwater.errors import InputError

Loss = Callable[[Tensor, Tensor], Tensor]
IGNORED = -1  # a target that does not count: padding


def cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of each sample.

    Takes logits (n, classes) with labels (n,); one logit per sample, (n,) or (n, 1), with labels 0
    and 1; or a sequence's logits (n, length, classes) with labels (n, length), of which those equal
    to −1 do not count and the others are averaged.

    >>> import torch
    >>> cross_entropy(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor([1.3863, 1.3863])
    """
    if binary(output):
        return functional.binary_cross_entropy_with_logits(
            output.reshape(len(output)), target.to(output.dtype), reduction="none"
        )
    if output.ndim == 2:
        return functional.cross_entropy(output, target, reduction="none")
    each = functional.cross_entropy(
        output.flatten(0, -2), target.flatten(), reduction="none", ignore_index=IGNORED
    )
    return each.view(target.shape).flatten(1).sum(1) / counted(target)


def squared_error(output: Tensor, target: Tensor) -> Tensor:
    """The squared error of each sample; the mean of them where a sample has several numbers.

    Outputs (n, 1) go with labels (n,).

    >>> import torch
    >>> squared_error(torch.tensor([[1.0], [2.0]]), torch.tensor([1.0, 4.0]))
    tensor([0., 4.])
    """
    return (aligned(output, target) - target).square().reshape(len(target), -1).mean(1)


def aligned(output: Tensor, target: Tensor) -> Tensor:
    """Outputs in the labels' shape, so that nothing is broadcast by mistake."""
    if output.numel() != target.numel() or len(output) != len(target):
        raise InputError(
            f"squared error: as many outputs as labels; got {tuple(output.shape)} and "
            f"{tuple(target.shape)}"
        )
    return output.reshape(target.shape)


def counted(target: Tensor) -> Tensor:
    """How many places of each sequence are not padding; at least 1, as it is divided by."""
    return (target != IGNORED).flatten(1).sum(1).clamp(min=1)


def check_labels(output: Tensor, labels: Tensor, where: str = "Client(y)") -> None:
    """Are these labels that cross-entropy can take with such outputs?"""
    if labels.is_floating_point() and not binary(output):
        return  # shares of the classes, or refused by the loss itself
    classes = 2 if binary(output) else output.shape[-1]
    least = IGNORED if output.ndim > 2 else 0
    low, high = (limit.item() for limit in labels.aminmax())
    if low < least or high >= classes:
        raise InputError(
            f"labels: {classes} classes, numbered from 0 to {classes - 1}; {where} goes from "
            f"{low:g} to {high:g}"
        )


def binary(output: Tensor) -> bool:
    """Is there one logit per sample?"""
    return output.ndim == 1 or (output.ndim == 2 and output.shape[1] == 1)
