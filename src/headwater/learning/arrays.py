"""Features and labels as users have them, as tensors: checked once, rounded never."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from headwater.errors import InputError
from headwater.learning.stored import AnyRows

Values = ArrayLike | Tensor

_PIECE = 1 << 16
"""Samples that are looked at together."""


def features(values: Values, name: str = "x") -> Tensor:
    """Features of one row per sample: floats keep their precision, whole numbers their kind.

    >>> features([[1.5], [2.5]]).dtype, features(np.zeros((2, 3), ">f4")).dtype
    (torch.float64, torch.float32)
    """
    return _checked(values, name)


def labels(values: Values, name: str = "y") -> Tensor:
    """Labels of one row per sample: whole numbers as int64, floats in their precision.

    >>> labels(np.array([1, 0], np.uint8))
    tensor([1, 0])
    """
    found = _checked(values, name)
    return found if found.is_floating_point() else found.long()


def of_precision(values: AnyRows, precision: torch.dtype, name: str) -> AnyRows | Tensor:
    """Floats in a model's precision; whole numbers as they are.

    Raises:
        InputError: if a number is too large for it.
    """
    if not values.is_floating_point() or values.dtype == precision:
        return values
    converted = values[:].to(precision)
    if not all_finite(converted):
        largest = float(values[:].abs().max())
        raise InputError(
            f"{name}: values up to {largest:.3g} are beyond the model's {_short(precision)}; "
            "scale them (subtract the mean, divide by the deviation), or use model.double()"
        )
    return converted


def all_finite(values: Tensor) -> bool:
    """Is no number NaN or infinite?

    The sum tells, in a fraction of the time: such a number makes it NaN or infinite. Only a sum
    that grew beyond the precision leaves it open.

    >>> all_finite(torch.full((2,), 3e38)), all_finite(torch.tensor([torch.inf, -torch.inf]))
    (True, False)
    """
    return bool(torch.isfinite(values.sum())) or bool(torch.isfinite(values).all())


def joined(parts: Sequence[Tensor]) -> Tensor:
    """All rows in one tensor; where they lie if that is one after the other, else in a copy.

    >>> whole = torch.arange(6.0)
    >>> joined([whole[:2], whole[2:5]]).data_ptr() == whole.data_ptr()
    True
    >>> joined([whole[2:5], whole[:2]])
    tensor([2., 3., 4., 0., 1.])
    """
    first = parts[0]
    end = first.data_ptr()
    for part in parts:
        there = part.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        alike = part.dtype == first.dtype and part.is_contiguous()
        if not (there and alike and part.data_ptr() == end):
            return torch.cat(list(parts))
        end += part.numel() * part.element_size()
    rows = sum(len(part) for part in parts)
    return first.as_strided((rows, *first.shape[1:]), first.stride())


def _checked(values: Values, name: str) -> Tensor:
    found = values.detach() if isinstance(values, Tensor) else _from_array(values, name)
    if found.is_complex() or found.layout != torch.strided:
        raise InputError(
            f"Client({name}): a dense tensor of real numbers; got {found.dtype}, {found.layout}"
        )
    if found.is_floating_point():
        _check_finite(found, name)
        if found.dtype not in (torch.float32, torch.float64):  # no loss can be had in half
            return found.float()
    return found


def _from_array(values: ArrayLike, name: str) -> Tensor:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"Client({name}): rows of equal length ({error})") from error
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"Client({name}): numbers; got {array.dtype} such as {array.ravel()[:1]!r} "
            "(turn names of classes into whole numbers from 0)"
        )
    return torch.from_numpy(_known_to_torch(array))


def _known_to_torch(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """The same numbers in this machine's byte order, in one piece, in a kind that PyTorch has."""
    kind = array.dtype.newbyteorder("=")
    if kind.kind == "f" and kind.itemsize > 8:
        kind = np.dtype(np.float64)  # there is nothing longer
    # A read-only array is copied: PyTorch warns of those that it could write to.
    copy = True if not array.flags.writeable else None
    return np.ascontiguousarray(array.astype(kind, copy=bool(copy)))


def _check_finite(values: Tensor, name: str) -> None:
    # A piece at a time: values may lie in a file that is larger than the memory.
    pieces = values.split(_PIECE) if values.ndim else (values,)
    if all(map(all_finite, pieces)):
        return
    rows = values.reshape(len(values), -1) if values.ndim else values.reshape(1, 1)
    bad = int(torch.nonzero(~torch.isfinite(rows).all(1))[0].item())
    raise InputError(
        f"Client({name}): every number must be finite; sample {bad} has NaN or infinity"
    )


def _short(precision: torch.dtype) -> str:
    return str(precision).removeprefix("torch.")
