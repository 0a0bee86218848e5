"""Features that stay as they lie and become what a model is fed only where they are looked at.

A set of photographs is a file of bytes. Laid out as floats it takes four times as much, and that in
every process, though a rank of several needs the samples of its own clients and a round only those
of its batches. So the file stays mapped, and its rows are scaled when they are taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Stored:
    """Rows that are read like those of a tensor, and never written to.

    Attributes:
        kept: the rows as they lie, in memory or in a mapped file.
        prepare: makes of some of them what a model is fed, each row by itself.

    Example:
        >>> halves = Stored(torch.tensor([[2], [4], [7]], dtype=torch.uint8), lambda x: x / 2)
        >>> halves.shape, halves.dtype, halves[1:]
        (torch.Size([3, 1]), torch.float32, tensor([[2.0000],
                [3.5000]]))
    """

    kept: Tensor
    prepare: Callable[[Tensor], Tensor]

    @cached_property
    def _first(self) -> Tensor:
        return self.prepare(self.kept[:1])

    @property
    def shape(self) -> torch.Size:
        """Of all rows, as a model is fed them."""
        return torch.Size((len(self.kept), *self._first.shape[1:]))

    @property
    def ndim(self) -> int:
        """How many dimensions they have, that of the rows included."""
        return self._first.ndim

    @property
    def dtype(self) -> torch.dtype:
        """The kind of their numbers."""
        return self._first.dtype

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self._first.device

    def is_floating_point(self) -> bool:
        """Are their numbers floats?"""
        return self._first.is_floating_point()

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, rows: int | slice | Tensor) -> Tensor:
        if isinstance(rows, int):
            return self[rows : rows + 1][0]
        return self.prepare(self.kept[rows])

    def index_select(self, dim: int, rows: Tensor) -> Tensor:
        """These rows, in one piece as a tensor gives them; ``dim`` is 0."""
        return self.prepare(self.kept.index_select(dim, rows)).contiguous()

    def clone(self) -> Tensor:
        """All rows, in a tensor that may be written to."""
        return self[:]


Rows = Tensor | Stored
"""Features or labels, one row per sample."""
AnyRows = TypeVar("AnyRows", bound=Rows)
