"""Sums over a matrix's spectrum, of which only products with vectors are known: Lanczos' method.

Started at a vector z, it turns a symmetric matrix with eigenvalues λ_k and eigenvectors u_k into a
small tridiagonal one, whose eigenvalues ν_j are nodes and whose eigenvectors give weights w_j with

    Σ_k (zᵀu_k)² f(λ_k)  ≈  Σ_j w_j f(ν_j)

That is Gauss's quadrature for exactly this sum. A last row that puts one more node at 0 makes it
Radau's. Where the derivatives of f take turns in sign, as those of 1 − e^−λ do, the two rules lie
on either side of the truth (Golub and Meurant, *Matrices, Moments and Quadrature*, 2010): how far
they are apart tells when there have been steps enough, and half-way is better than both.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from headwater.randomness import Floats

Rule = tuple[Floats, Floats]
"""Nodes ν_j ≥ 0 and their weights w_j."""

_NOTHING = 1e-6
"""Parts of the largest eigenvalue that are rounding, in products of single precision."""


class Lanczos:
    """A start and the steps from there; the matrix has no eigenvalue below 0.

    Only the newest two vectors are kept. Rounding then finds eigenvalues again that it has found
    before, but copies share their weight, so that sums need a few more steps and stay right
    (Greenbaum, *Behavior of slightly perturbed Lanczos*, 1989). Lengths and products of vectors
    are summed in double precision: what single precision loses over millions of numbers grows with
    every step, and thirty steps on it was larger than the answer.

    >>> found = Lanczos(lambda v: torch.tensor([1.0, 3.0]) * v, torch.tensor([2.0, 1.0]))
    >>> found.step()
    >>> [part.round(2).tolist() for part in found.gauss()]
    [[1.4], [5.0]]
    >>> [part.round(2).tolist() for part in found.radau()]
    [[0.0, 1.86], [1.23, 3.77]]
    >>> found.step()
    >>> [part.round(2).tolist() for part in found.gauss()], found.complete
    ([[1.0, 3.0], [4.0, 1.0]], True)
    """

    def __init__(self, product: Callable[[Tensor], Tensor], start: Tensor) -> None:
        self._product = product
        self._size = _length(start)
        self._diagonal: list[float] = []
        self._beside: list[float] = []
        self._before = torch.zeros_like(start)
        self._newest = start / self._size if self._size > 0 else None

    @property
    def complete(self) -> bool:
        """Are there no directions left that the start reaches? Then Gauss's rule is exact."""
        return self._newest is None

    def step(self) -> None:
        """One more product with the matrix, unless it is complete."""
        if self._newest is None:
            return
        newest, image = self._newest, self._product(self._newest)
        self._diagonal.append(_inner(image, newest))
        # What rounding has left of the two vectors in the image is small, and is taken out as well.
        for vector in (newest, self._before, newest):
            image = image - _inner(image, vector) * vector
        length = _length(image)
        self._before, self._newest = newest, None
        if length > _NOTHING * max(self._diagonal):
            self._beside.append(length)
            self._newest = image / length

    def gauss(self) -> Rule:
        """Gauss's nodes and weights, after at least one step unless the start is zero."""
        return self._rule(self._diagonal)

    def radau(self) -> Rule:
        """Radau's, with one more node, at 0; Gauss's where that has one there or is exact."""
        nodes, weights = self.gauss()
        if self.complete or nodes.min() <= _NOTHING * nodes.max():
            return nodes, weights
        # The last number on the diagonal with which the matrix is singular.
        end = np.zeros(len(self._diagonal))
        end[-1] = self._beside[-1] ** 2
        return self._rule([*self._diagonal, np.linalg.solve(self._matrix(self._diagonal), end)[-1]])

    def _rule(self, diagonal: list[float]) -> Rule:
        if not diagonal:
            return np.zeros(0), np.zeros(0)
        nodes, vectors = np.linalg.eigh(self._matrix(diagonal))
        return np.maximum(nodes, 0.0), self._size**2 * vectors[0] ** 2

    def _matrix(self, diagonal: list[float]) -> Floats:
        beside = self._beside[: len(diagonal) - 1]
        return np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)


def _length(vector: Tensor) -> float:
    return float(torch.linalg.vector_norm(vector, dtype=torch.float64))


def _inner(one: Tensor, other: Tensor) -> float:
    return float(one.double() @ other.double())
