"""The importances that minimise the general bound, for any target α.

The problem, over the simplex, with A, R, z_m = n_m v_m as in ``optimum``, r = c2'/c1 and
K = 2·disc/c1:

    minimise  A(p) + r·R(p) + K·‖α − p‖₁.

**One norm instead of two.** For a, b ≥ 0 we have (a + b)² = min over 0 < θ < 1 of
a²/θ + b²/(1 − θ), reached at θ = a/(a + b). With θ = y/(y + r²) this makes the sum of two norms the
least of single norms,

    A + r·R = min over y > 0 of √(y + r²)·√(Σ p_m²/w_m),    w_m = n_m y/(y + z_m),

reached at y = r·A/R.

For each y the best p is known exactly (``exchange``, at the price K/√(y + r²)); let F(y) be what it
reaches. The optimum is at the y that minimises F.

**One root.** H(p, a, b) = (A²/a + a)/2 + (r²R²/b + b)/2 + K·‖α − p‖₁ is jointly convex for
a, b > 0, and F(y) is its least value over p and the ray a/b = y/r². Whether F(y) ≤ c depends on
whether that ray meets the projection of a convex set on the (a, b) plane, so these y form an
interval: F falls, then rises. The sign of dF/dy is that of y·R/A − r, at the best p for y. Where it
is zero, y = r·A/R, all optimality conditions of the convex problem hold; and as R is strictly
convex on the simplex there is only one. So y·R/A − r changes sign once, at the optimum.

**Bracket.** A² lies between min z·R² and max z·R², so y between r·√(min z) and r·√(max z). If some
client has no noise then min z = 0; the limit at y → 0, where p_m/y → level/v_m for the clients with
noise (the high level if α_m > 0, else the low one), tells whether the optimum is the corner where
these clients get nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headwater.planner.checks import Floats, Noise, distribution, noises, relative_sizes
from headwater.planner.constants import Constants
from headwater.planner.error_bound import BoundTerms, bound_terms, norms, quiet_share
from headwater.planner.exchange import Ladder, giving_level, settle
from headwater.planner.optimum import minimise

ROOT_TOLERANCE = 1e-12
"""Relative error of y. The bound is flat in y at the optimum, so its own error is the square."""

NEGLIGIBLE = 1e-100
"""A price this small next to the largest one changes no digit of the bound; it is taken for zero,
so that prices of any size give their limit instead of an overflow."""


@dataclass(frozen=True)
class TargetOptimum:
    """Importances that minimise the bound for a target.

    Attributes:
        importance: p*, one entry for each client; not negative, summing to one.
        terms: the bound at p*, term by term; ``terms.total`` is the minimum.
        historical: importance of all clients without noise together, in the paper's case of the
            historical ones.
    """

    importance: Floats
    terms: BoundTerms
    historical: float


def optimal_for_target(
    samples: npt.ArrayLike, noise: npt.ArrayLike, target: npt.ArrayLike, constants: Constants
) -> TargetOptimum:
    """Minimise c1·√(Σ v_m p_m²) + c2'·√(Σ p_m²/n_m) + 2·disc·‖α − p‖₁ over the importances p.

    Exact up to rounding, in time M·log M for M clients. Where ``constants.few_samples`` is zero the
    minimisers can be many; the answer is then the limit from above.

    Args:
        samples: N_m, how many samples each client has in the whole run; only their proportions
            matter.
        noise: the mask of the fresh clients (the paper's bound) or v_m ≥ 0 for each client (the
            sharper one).
        target: α_m, how much each client should count in the end; sums to one.
        constants: the prices of the bound's terms.

    Returns:
        The importances, the bound's terms there, and the importance of the clients without noise
        together.

    Example:
        >>> prices = Constants(c0=0.0, c1=1.0, few_samples=0.5, discrepancy=0.15)
        >>> target = [0.2, 0.3, 0.5]
        >>> best = optimal_for_target([100, 100, 400], [False, False, True], target, prices)
        >>> best.importance.round(4).tolist()
        [0.2585, 0.3, 0.4415]

    Reference:
        Marfoq et al., Federated Learning for Data Streams, appendix, general case of Corollary 1.
    """
    sizes = relative_sizes(samples)
    checked = noises(noise, sizes.size)
    aim = distribution(target, sizes.size, "target")
    importance = _solve(sizes, checked, aim / aim.sum(), constants)
    terms = bound_terms(importance, samples, checked, constants, target)
    return TargetOptimum(importance, terms, quiet_share(importance, checked))


def _solve(sizes: Floats, noise: Noise, target: Floats, constants: Constants) -> Floats:
    # As in ``optimum`` the noise is brought to at most one, and its price grows by the root.
    scale = float(noise.max()) or 1.0
    spread: Floats = noise / scale
    c1, c2, price = _relative_prices(constants, math.sqrt(scale) if noise.any() else 0.0)
    if _stays(sizes, spread, target, (c1, c2, price)):
        return target
    if price == 0:
        return minimise(spread, sizes, c2 / c1 if c1 else math.inf).importance
    if c1 == 0:
        return settle(target, sizes, price / c2).importance(target, sizes)
    if c2 == 0:
        return _without_size_term(sizes, spread, target, price / c1)
    trade = _Trade(sizes, sizes * spread, target, c2 / c1, price / c1)
    return trade.importance(trade.root())


def _stays(
    sizes: Floats, noise: Floats, target: Floats, prices: tuple[float, float, float]
) -> bool:
    """Whether nobody gains by leaving the target: no two slopes there differ by more than 2K.

    Found beforehand, as rounding of the importances would cost K times itself.
    """
    c1, c2, price = prices
    noisy, thin = norms(target, sizes, noise)
    slope = target * (c2 / (sizes * thin))
    if noisy:
        slope += target * noise * (c1 / noisy)
    return bool(slope.max() - slope.min() <= 2 * price)


def _relative_prices(constants: Constants, noise: float) -> tuple[float, float, float]:
    """Prices of noise, of few samples and of distance, the largest of them one."""
    largest = max(constants.c1, constants.few_samples, constants.discrepancy) or 1.0
    prices = (
        constants.c1 / largest * noise,
        constants.few_samples / largest,
        constants.discrepancy / largest * 2,
    )
    most = max(prices) or 1.0
    c1, c2, price = (p / most if p > NEGLIGIBLE * most else 0.0 for p in prices)
    return c1, c2, price


@dataclass(frozen=True)
class _Trade:
    """The best importances for each y, and how far that y is from r·A/R.

    Attributes:
        sizes: n_m.
        spread: z_m = n_m v_m.
        target: α_m.
        ratio: r = c2'/c1.
        price: K = 2·disc/c1.
    """

    sizes: Floats
    spread: Floats
    target: Floats
    ratio: float
    price: float

    def importance(self, y: float) -> Floats:
        weight = self._weight(y)
        price = self.price / math.hypot(math.sqrt(y), self.ratio)
        return settle(self.target, weight, price).importance(self.target, weight)

    def _weight(self, y: float) -> Floats:
        if y == 0:  # the limit of y/(y + z)
            return np.where(self.spread == 0, self.sizes, 0.0)
        return self.sizes * (y / (y + self.spread))

    def mismatch(self, y: float) -> float:
        """Return y·R/A − r, negative below the root and positive above; at y = 0 its limit."""
        if y == 0:
            return self._mismatch_at_corner()
        noise, generalisation = norms(self.importance(y), self.sizes, self.spread / self.sizes)
        return y * generalisation / noise - self.ratio if noise else math.inf

    def _mismatch_at_corner(self) -> float:
        weight = self._weight(0.0)
        levels = settle(self.target, weight, self.price / self.ratio)
        _, generalisation = norms(levels.importance(self.target, weight), self.sizes, weight)
        noisy = self.spread > 0
        level = np.where(self.target[noisy] > 0, levels.high, levels.low)
        pull = math.sqrt(float((level**2 * self.sizes[noisy] / self.spread[noisy]).sum()))
        return generalisation / pull - self.ratio if pull else math.inf

    def root(self) -> float:
        from scipy.optimize import brentq  # takes longer to import than the whole planner

        low = self.ratio * math.sqrt(float(self.spread.min()))
        high = self.ratio * math.sqrt(float(self.spread.max()))
        if self.mismatch(low) >= 0:
            return low
        if self.mismatch(high) <= 0:
            return high
        return float(
            brentq(self.mismatch, low, high, xtol=math.ulp(0.0), rtol=ROOT_TOLERANCE, maxiter=1000)
        )


def _without_size_term(sizes: Floats, noise: Floats, target: Floats, price: float) -> Floats:
    """Minimise A + K·‖α − p‖₁ and, among equals, R, as the limit r → 0 does.

    Clients without noise then take any importance at no cost but the price of moving it: the low
    level is zero, clients with noise give down to high = 2K·A, and those without are filled up to a
    level as sizes have it.
    """
    noisy = noise > 0
    if noisy.all():
        weight = 1 / noise
        return settle(target, weight, price).importance(target, weight)
    importance = np.empty_like(target)
    high = giving_level(target[noisy], 1 / noise[noisy], price)
    importance[noisy] = np.minimum(target[noisy], high / noise[noisy])
    given = float((target[noisy] - importance[noisy]).sum())
    level = Ladder(target[~noisy], sizes[~noisy]).levels(given)[0].low
    importance[~noisy] = np.maximum(target[~noisy], level * sizes[~noisy])
    return importance
