"""Sums over a matrix's spectrum, of which only products with vectors are known: Lanczos' method.

Let the matrix G have eigenvalues λ_k ≥ 0 and eigenvectors u_k. Started at a vector z, the method
gives nodes ν_j and weights w_j with

    Σ_k (zᵀu_k)² λ_k f(λ_k)  ≈  Σ_j w_j f(ν_j)

It runs in G's own inner product ⟨a, b⟩ = aᵀGb, in which z has just these squares: (zᵀu_k)² λ_k. So
directions without curvature are not there at all, and need not be told from small ones. The nodes
and weights are Gauss's for this sum; a last row that puts one of the nodes at 0 makes them Radau's.
Where the derivatives of f take turns in sign, as those of e^−λ do, Gauss's sum is too small and
Radau's too large, whatever the spectrum (Golub and Meurant, *Matrices, Moments and Quadrature*,
2010): how far they are apart tells when there have been steps enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from headwater.errors import InputError
from headwater.randomness import Floats

Rule = tuple[Floats, Floats]
"""Nodes ν_j ≥ 0 and their weights w_j."""

_NOTHING = 1e-6
"""Parts of the largest number of the diagonal that are rounding, in single precision."""


class Lanczos:
    """A start and the steps from there.

    Only the newest vectors are kept. Rounding then finds eigenvalues again that it has found
    before, but copies share their weight, so that sums need a few more steps and stay right
    (Greenbaum, *Behavior of slightly perturbed Lanczos*, 1989). Inner products are summed in double
    precision: what single precision loses over millions of numbers grows with every step.

    >>> found = Lanczos(lambda v: torch.tensor([1.0, 3.0]) * v, torch.tensor([2.0, 1.0]))
    >>> found.step()
    >>> [part.round(2).tolist() for part in found.gauss()]
    [[1.86], [7.0]]
    >>> found.step()
    >>> [part.round(2).tolist() for part in found.gauss()]
    [[1.0, 3.0], [4.0, 3.0]]
    >>> [part.round(2).tolist() for part in found.radau()]
    [[0.0, 2.38], [1.55, 5.45]]
    """

    def __init__(self, product: Callable[[Tensor], Tensor], start: Tensor) -> None:
        self._product = product
        self._mass = 0.0
        self._diagonal: list[float] = []
        self._beside: list[float] = []
        self._following: Tensor | None = start if bool(start.any()) else None
        self._before: tuple[Tensor, Tensor] | None = None
        self.complete = False
        """Has the start reached all directions that it can reach? Then Gauss's rule is exact."""

    @property
    def ended(self) -> bool:
        """Is there nowhere left to go?"""
        return self._following is None

    def step(self) -> None:
        """One more product with the matrix, unless it has ended."""
        if self._following is None:
            return
        image = self._product(self._following)
        square = _inner(self._following, image)
        if not math.isfinite(square):
            raise InputError(
                "the loss: its second derivative is not finite here, so that the horizon cannot be "
                "measured; give it, as in Remembered(horizon=0.25)"
            )
        rounding = (_NOTHING * max(self._diagonal, default=0.0)) ** 2
        if square <= rounding:
            # Below 0 the matrix has an eigenvalue that it must not have, and nothing is exact.
            self.complete = square >= -rounding
            self._following = None
            return
        self._take(self._following, image, math.sqrt(square))

    def _take(self, vector: Tensor, image: Tensor, length: float) -> None:
        """Bring a vector and its image to length one, and find where it goes from there."""
        newest = (vector / length, image / length)
        if self._before is None:
            self._mass = length**2
        else:
            self._beside.append(length)
        self._diagonal.append(_inner(newest[1], newest[1]))
        following = newest[1]
        # Older vectors have no part in it, but for rounding.
        for one, its_image in filter(None, (newest, self._before)):
            following = following - _inner(following, its_image) * one
        self._before, self._following = newest, following

    def gauss(self) -> Rule:
        """Gauss's nodes and weights: one node for each step."""
        return self._rule(self._diagonal, self._beside)

    def radau(self) -> Rule:
        """Radau's: as many, one of them at 0; Gauss's where that is exact."""
        if self.complete or not self._diagonal:
            return self.gauss()
        *known, _ = self._diagonal
        end = 0.0  # the last number on the diagonal, with which the matrix is singular
        for diagonal, beside in zip(known, self._beside, strict=True):
            if diagonal <= end:  # rounding: the bound that is always right
                return np.zeros(1), np.array([self._mass])
            end = beside**2 / (diagonal - end)
        return self._rule([*known, end], self._beside)

    def _rule(self, diagonal: list[float], beside: list[float]) -> Rule:
        if not diagonal:
            return np.zeros(0), np.zeros(0)
        matrix = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
        nodes, vectors = np.linalg.eigh(matrix)
        return np.maximum(nodes, 0.0), self._mass * vectors[0] ** 2


def _inner(one: Tensor, other: Tensor) -> float:
    return float((one * other).sum(dtype=torch.float64))
