"""What is learned from what: a model, a loss, and all samples in one tensor."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwater.errors import InputError
from headwater.learning.arrays import joined, of_precision
from headwater.learning.federation import Part
from headwater.learning.losses import Loss, cross_entropy
from headwater.learning.optimisers import PLAIN, Chain
from headwater.learning.stored import AnyRows, Rows, Stored
from headwater.randomness import Purpose, key

Slice = slice | Tensor
"""Rows: those from one to another, or these."""
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Problem:
    """A model and the samples it learns from.

    Attributes:
        model: any module; its parameters are never changed, they are handed on as one flat vector.
        x: features of all samples of all clients, in one tensor or as they lie.
        y: labels of all samples of all clients, in one tensor.
        rows: the row of each sample number; None: sample i is row i.
        loss: (outputs, labels) -> one number per sample.
        seed: for modules that draw at random (dropout).
        local: what clients do with their gradients; plain steps unless told otherwise.
        channels_last: lay the images of a batch channels last, which makes convolutions faster.
    """

    model: nn.Module
    x: Rows
    y: Tensor
    rows: Tensor | None = None
    loss: Loss = cross_entropy
    seed: int = 0
    local: Chain = PLAIN
    channels_last: bool = False

    @classmethod
    def of(
        cls,
        model: nn.Module,
        part: Part,
        loss: Loss = cross_entropy,
        seed: int = 0,
        device: torch.device = CPU,
    ) -> Problem:
        """A problem of its own: the model copied, the samples in the model's precision."""
        own = own_copy(model).to(device)
        kind = precision_of(own)
        x = _ordinary(of_precision(part.x, kind, "Client(x)"), device)
        y = _ordinary(of_precision(part.y, kind, "Client(y)"), device)
        images = x.ndim == 4 and any(isinstance(m, nn.Conv2d) for m in own.modules())
        rows = None if part.row_tensor is None else part.row_tensor.to(device)
        return cls(own, x, y, rows, loss, seed, channels_last=images)

    @property
    def device(self) -> torch.device:
        """Where samples, model and steps are."""
        return self.x.device

    def numbers(self, values: NDArray[Any], kind: torch.dtype) -> Tensor:
        """A round's shares or coefficients, where the samples are."""
        return torch.from_numpy(values).to(self.device, kind)

    @cached_property
    def parameters(self) -> list[tuple[str, nn.Parameter]]:
        """The parameters that are learned, in the order in which they lie in the flat vector."""
        return [(name, p) for name, p in self.model.named_parameters() if p.requires_grad]

    @cached_property
    def size(self) -> int:
        """d, the number of parameters."""
        return sum(p.numel() for _, p in self.parameters)

    def initial(self) -> Tensor:
        """The model's own parameters as one flat vector, not to be written to.

        It is no copy if they lie one after the other, as those of a
        :class:`~headwater.learning.engines.flat.FlatModel` do.
        """
        return joined([p.detach().reshape(-1) for _, p in self.parameters])

    def views(self, vector: Tensor) -> dict[str, Tensor]:
        """The flat vector as named parameters, without a copy."""
        named, start = {}, 0
        for name, p in self.parameters:
            named[name] = vector[start : start + p.numel()].view_as(p)
            start += p.numel()
        return named

    def load(self, vector: Tensor, model: nn.Module) -> nn.Module:
        """Copy a flat vector into a model of the same kind."""
        own = dict(model.named_parameters())
        with torch.no_grad():
            for name, value in self.views(vector).items():
                own[name].copy_(value)
        return model

    def where(self, samples: NDArray[np.int64]) -> Slice:
        """The rows of these samples; a slice if they follow each other, which needs no copy."""
        # A slice is a view: no copy of the features, which is most of a small model's round.
        if self.rows is None and _consecutive(samples):
            return slice(int(samples[0]), int(samples[-1]) + 1)
        index = torch.from_numpy(np.require(samples, requirements=["C", "W"])).to(self.device)
        return index if self.rows is None else self.rows[index]

    def take(self, rows: Slice) -> tuple[Tensor, Tensor]:
        """Features and labels of these rows.

        Images are laid out batch by batch, which costs next to nothing beside a convolution; a
        second copy of all of them would cost as much memory as the data.
        """
        if isinstance(rows, slice):
            x, y = self.x[rows], self.y[rows]
        else:
            x, y = self.x.index_select(0, rows), self.y.index_select(0, rows)
        return (x.contiguous(memory_format=torch.channels_last) if self.channels_last else x), y

    @cached_property
    def draws(self) -> bool:
        """Does the model draw at random while it learns? Then each client's draws have a seed."""
        # Tried on the CPU, whose generator is the one that can be watched.
        model = self.model if self.device == CPU else own_copy(self.model).cpu()
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            before = torch.get_rng_state()
            model(self.x[:1].cpu())
            return not torch.equal(before, torch.get_rng_state())

    def reseed(self, round: int, client: int, step: int) -> None:
        """Make the draws of one local step depend on nothing but (seed, round, client, step)."""
        if self.draws:
            torch.manual_seed(int(key(self.seed, Purpose.DROPOUT, round, client, step)) >> 1)


@contextmanager
def gradients_on() -> Iterator[None]:
    """Learning within: the caller may be in ``torch.no_grad()`` or ``inference_mode()``."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def own_copy(model: nn.Module) -> nn.Module:
    """A copy of the user's model that a run may do with as it likes.

    A model from ``torch.compile`` gives the module that it was made of: the engines call models in
    ways that a compiled one does not know. Tensors made in inference mode become ordinary ones.
    """
    if isinstance(model, type):
        raise InputError(f"model: a torch.nn.Module that is made, as in {model.__name__}(…)")
    if not isinstance(model, nn.Module):
        raise InputError(f"model: a torch.nn.Module; got a {type(model).__name__}")
    if type(model).__name__ == "OptimizedModule":
        model = cast(nn.Module, model._orig_mod)
    try:
        return copy.deepcopy(model)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"model: copy.deepcopy(model) fails ({error})") from error


def known_device(given: object) -> torch.device:
    """A device by its name, if this machine has it; None stands for the CPU.

    >>> known_device(None), known_device("cpu")
    (device(type='cpu'), device(type='cpu'))
    """
    try:
        device = torch.device("cpu" if given is None else given)  # type: ignore[call-overload]
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        why = str(error).splitlines()[0]
        raise InputError(
            f"device: 'cpu', 'cuda' or what else this machine can compute on; got {given!r} ({why})"
        ) from None
    return device


def precision_of(model: nn.Module) -> torch.dtype:
    """The kind of numbers that a model computes with."""
    kinds = (p.dtype for p in model.parameters() if p.is_floating_point())
    return next(kinds, torch.float32)


def _ordinary(values: AnyRows, device: torch.device) -> AnyRows | Tensor:
    """What autograd can use there; a tensor made in inference mode is copied."""
    if isinstance(values, Stored):
        return values if device == CPU else values[:].to(device)
    return (values.clone() if values.is_inference() else values).to(device)


def _consecutive(samples: NDArray[np.int64]) -> bool:
    close = len(samples) > 0 and samples[-1] - samples[0] == len(samples) - 1
    return close and bool((np.diff(samples) == 1).all())


def chunks(count: int, size: int) -> Iterator[slice]:
    """Cut ``count`` places into even pieces of at most ``size``."""
    pieces = max(1, -(-count // size))
    return (slice(count * k // pieces, count * (k + 1) // pieces) for k in range(pieces))
