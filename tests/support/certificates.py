"""Proofs of optimality that know nothing of how an answer was found.

The problem is convex: minimise c1·√(Σ v p²) + c2·√(Σ p²/n) + k·‖α − p‖₁ over the simplex.
Multipliers are read off
the answer p: a subgradient x of the noise term, z of the size term, s of the distance, and λ ≥ 0
    for p ≥ 0. Then

- p is feasible, and λ vanishes where p does not (complementarity),
- x, z and s are within their norms (sign and size of the multipliers),
- x + z + k·s − λ = μ for all clients (stationarity).

By weak duality any such x, z, s also give min(x + z + k·s) − k·Σ s·α, a lower bound on the minimum,
whatever p is. The distance between that and the value at p bounds how far p is from optimal: the
gap.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import cvxpy as cp
import numpy as np


@dataclass(frozen=True)
class Problem:
    samples: np.ndarray
    noise: np.ndarray
    c1: float
    c2: float
    price: float = 0.0
    target: np.ndarray | None = None

    @property
    def sizes(self):
        return (self.samples / self.samples.sum()).astype(np.longdouble)

    @property
    def aim(self):
        return (
            self.sizes
            if self.target is None
            else (self.target / self.target.sum()).astype(np.longdouble)
        )

    def value(self, p):
        p = np.asarray(p, dtype=np.longdouble)
        noise, size = np.sqrt((self.noise * p * p).sum()), np.sqrt((p * p / self.sizes).sum())
        return self.c1 * noise + self.c2 * size + self.price * np.abs(self.aim - p).sum()


@dataclass(frozen=True)
class Certificate:
    """All residuals relative to the size of what they are residuals of; zero for a perfect
    answer."""

    infeasibility: float
    excess: float  # by how much a multiplier is larger than allowed
    stationarity: float
    gap: float

    def holds(self, feasibility=1e-12, tolerance=1e-9, gap=1e-10):
        fine = self.infeasibility <= feasibility and self.excess <= tolerance
        return fine and self.stationarity <= tolerance and self.gap <= gap


def certify(problem: Problem, importance) -> Certificate:
    p = np.asarray(importance, dtype=np.longdouble)
    infeasibility = max(abs(p.sum() - 1), -p.min(), 0)
    slope, low, high = _slope_and_range(problem, p)
    mu = low if _at_corner(problem, p) else (low + high) / 2
    if _at_corner(problem, p):
        slope = slope + _corner_subgradient(problem, mu)
    sign = _distance_subgradient(problem, p, slope, mu)
    bare = slope + problem.price * sign
    multiplier = np.where(
        p == 0, np.maximum(bare - mu, 0), 0
    )  # λ: complementary to p by construction
    scale = np.abs(slope).max() + problem.price or 1.0  # a bound of zero everywhere has no scale
    value = problem.value(p)
    lower = bare.min() - problem.price * (sign * problem.aim).sum()
    rounding = 1e-15 * problem.price  # what moving p by its last bit costs
    return Certificate(
        float(infeasibility),
        _noise_excess(problem, p, mu),
        float(np.abs(bare - multiplier - mu).max() / scale),
        float(max(abs(value - lower) - rounding, 0) / value) if value else 0.0,
    )


def by_clarabel(problem: Problem) -> tuple[float, np.ndarray]:
    """Minimum and minimiser by a general solver, to the last digits it can give."""
    p = cp.Variable(problem.samples.size, nonneg=True)
    sizes, aim = problem.sizes.astype(float), problem.aim.astype(float)
    objective = problem.c1 * cp.norm(cp.multiply(np.sqrt(problem.noise), p))
    objective += problem.c2 * cp.norm(
        cp.multiply(1 / np.sqrt(sizes), p)
    ) + problem.price * cp.norm1(aim - p)
    reference = cp.Problem(cp.Minimize(objective), [cp.sum(p) == 1])
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # it warns where it cannot reach all ten digits
        reference.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    feasible = np.maximum(p.value, 0)
    return float(reference.value), feasible / feasible.sum()


def _at_corner(problem, p):
    noisy = problem.noise > 0
    return problem.c1 > 0 and noisy.any() and not p[noisy].any()


def _slope_and_range(problem, p):
    """x + z where both are gradients, and the range of μ that the clients allow (those in a corner
    aside)."""
    noise, size = np.sqrt((problem.noise * p * p).sum()), np.sqrt((p * p / problem.sizes).sum())
    slope = problem.c2 * p / (problem.sizes * size)
    if noise:
        slope = slope + problem.c1 * problem.noise * p / noise
    above, below = _sides(problem, p)
    lowest = np.where(above, slope + problem.price, slope - problem.price)
    highest = np.where(below, slope - problem.price, slope + problem.price)
    lowest = np.where(p == 0, -np.inf, lowest)
    counted = problem.noise == 0 if _at_corner(problem, p) else np.ones(p.size, dtype=bool)
    return slope, lowest[counted].max(), highest[counted].min()


def _sides(problem, p):
    """Who is above and below the target, beyond rounding."""
    margin = 1e-13 * problem.aim + 1e-300
    return p > problem.aim + margin, p < problem.aim - margin


def _distance_subgradient(problem, p, slope, mu):
    if problem.price == 0:
        return np.zeros_like(p)
    above, below = _sides(problem, p)
    free = np.clip((mu - slope) / problem.price, -1, 1)
    return np.where(above, 1, np.where(below, -1, free))


def _corner_subgradient(problem, mu):
    """The least x that keeps clients with noise at zero; other clients have none."""
    pull = np.where(problem.aim > 0, mu + problem.price, np.maximum(mu - problem.price, 0))
    return np.where(problem.noise > 0, pull, 0)


def _noise_excess(problem, p, mu):
    """√(Σ x²/v) must not exceed c1; away from the corner x is the gradient, and it is c1
    exactly."""
    if not _at_corner(problem, p):
        return 0.0
    noisy = problem.noise > 0
    pull = _corner_subgradient(problem, mu)[noisy]
    return float(max(np.sqrt((pull**2 / problem.noise[noisy]).sum()) / problem.c1 - 1, 0))
