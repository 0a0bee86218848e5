"""What is learned from what: a model, a loss, and all samples in one tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwater.errors import InputError
from headwater.learning.losses import Loss, check_labels, cross_entropy
from headwater.randomness import Purpose, key

Slice = slice | Tensor


@dataclass(frozen=True)
class Problem:
    """A model and the samples it learns from.

    Attributes:
        model: any module; it is never changed, the parameters travel as one flat vector.
        x, y: features and labels of all samples of all clients, each in one tensor.
        rows: the row of each sample number; None: sample i is row i.
        loss: (outputs, labels) -> one number a sample.
        seed: for modules that draw at random (dropout).
    """

    model: nn.Module
    x: Tensor
    y: Tensor
    rows: Tensor | None = None
    loss: Loss = cross_entropy
    seed: int = 0

    @cached_property
    def parameters(self) -> list[tuple[str, nn.Parameter]]:
        """The parameters that are learned, in the order in which they lie in the flat vector."""
        return [(name, p) for name, p in self.model.named_parameters() if p.requires_grad]

    @cached_property
    def size(self) -> int:
        """d, the number of parameters."""
        return sum(p.numel() for _, p in self.parameters)

    def initial(self) -> Tensor:
        """The model's own parameters as one flat vector."""
        return torch.cat([p.detach().reshape(-1) for _, p in self.parameters])

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
        """The rows of these samples: a slice if they follow each other, so that nothing has to be
        copied."""
        if self.rows is None and _consecutive(samples):
            return slice(int(samples[0]), int(samples[-1]) + 1)
        index = torch.from_numpy(np.require(samples, requirements=["C", "W"]))
        return index if self.rows is None else self.rows[index]

    def take(self, rows: Slice) -> tuple[Tensor, Tensor]:
        """Features and labels of these rows; images that lie channels last stay so."""
        if isinstance(rows, slice):
            return self.x[rows], self.y[rows]
        if self.x.ndim == 4 and not self.x.is_contiguous():
            picked = self.x.permute(0, 2, 3, 1).index_select(0, rows).permute(0, 3, 1, 2)
        else:
            picked = self.x.index_select(0, rows)
        return picked, self.y.index_select(0, rows)

    @cached_property
    def draws(self) -> bool:
        """Does the model draw at random while it learns? Then every client's draws are seeded
        apart."""
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            before = torch.get_rng_state()
            self.model(self.x[:1])
            return not torch.equal(before, torch.get_rng_state())

    def reseed(self, round: int, client: int, step: int) -> None:
        """Make the draws of one local step depend on nothing but (seed, round, client, step)."""
        if self.draws:
            torch.manual_seed(int(key(self.seed, Purpose.DROPOUT, round, client, step)) >> 1)

    def check(self) -> None:
        """Try the model and the loss on a few samples; say what is wrong in the user's words."""
        for name, module in self.model.named_modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                raise InputError(
                    f"model: {name or type(module).__name__} (BatchNorm) mixes the samples of a "
                    "batch and keeps "
                    "statistics that cannot be added with clients' shares; use GroupNorm or "
                    "LayerNorm instead"
                )
        if not self.parameters:
            raise InputError("model: it has no parameters that require a gradient")
        kinds = sorted({str(p.dtype) for _, p in self.parameters})
        if len(kinds) > 1 or self.parameters[0][1].dtype not in (torch.float32, torch.float64):
            raise InputError(
                f"model: parameters must all be float32 or all float64; found {', '.join(kinds)}"
            )
        self._check_loss()

    def _check_loss(self) -> None:
        x, y = self.x[:2], self.y[:2]
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                output = self.model(x)
                if self.loss is cross_entropy:
                    check_labels(output, self.y)
                losses = self.loss(output, y)
        except InputError:
            raise
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            raise InputError(
                f"loss(model(x), y) fails on the first samples: features {tuple(x.shape)} "
                f"{x.dtype}, labels "
                f"{tuple(y.shape)} {y.dtype} ({error}). Cross-entropy takes whole numbers from 0 "
                "as labels; "
                "for other labels give a loss= of your own"
            ) from error
        if losses.shape != (len(x),):
            raise InputError(
                f"loss: one number a sample, shape ({len(x)},); got {tuple(losses.shape)} (use "
                "reduction='none')"
            )


def _consecutive(samples: NDArray[np.int64]) -> bool:
    close = len(samples) > 0 and samples[-1] - samples[0] == len(samples) - 1
    return close and bool((np.diff(samples) == 1).all())


def chunks(count: int, size: int) -> Iterator[slice]:
    """Cut ``count`` places into even pieces of at most ``size``."""
    pieces = max(1, -(-count // size))
    return (slice(count * k // pieces, count * (k + 1) // pieces) for k in range(pieces))
