"""The importances that minimise the bound, from its optimality conditions.

The problem, over the simplex, for a noise v_m ≥ 0 and a relative size n_m = N_m/N of every client:

    minimise  A(p) + r·R(p),    A² = Σ v_m p_m²,    R² = Σ p_m²/n_m,    r = c2/c1.

The paper's ψ (Corollary 1) has v_m = 1 for a fresh client and 0 for a historical one.

**One scalar.** Where A > 0 the objective is smooth, and its derivative v_m p_m/A + r p_m/(n_m R)
must be the same for all clients. With z_m = n_m v_m and y = r·A/R that reads

    p_m ∝ n_m / (y + z_m).

Put into y = r·A/R, this leaves one equation for y > 0:

    G(y) = r,    G² = Q/S,    Q = Σ n_m y²/(y + z_m)²,    S = Σ n_m z_m/(y + z_m)².

**One root.** Every term of Q increases with y and every term of S decreases, so G increases
strictly, from G(0) = √(n_H / Σ_{v>0} 1/v_m), where n_H is the relative size of the clients without
noise, to infinity. So there is exactly one root if r > G(0). If r ≤ G(0) there is none, A = 0, and
the clients without noise share everything in proportion to their sizes: the corner, in the paper's
case Historical for r ≤ √(n_hist/(M − M_hist)).

G is linear at both ends, so Newton's method in y needs four to ten passes over the clients; a
bracket around the root keeps it safe. Since dQ/dy = 2yE and dS/dy = −2E with E = Σ n_m z_m/(y +
z_m)³, we have d log G/dy = E·(y/Q + 1/S).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt

from headwater.planner.checks import Floats, Noise, mask, noises, number, relative_sizes
from headwater.planner.error_bound import norms, quiet_share
from headwater.planner.passes import pieces, totals

STEP_TOLERANCE = 1e-9
"""A Newton step this small, relative to y, leaves an error of its square, which float64 cannot
show."""

ROUNDING = 1e-14
"""Relative error of G(y) that rounding alone can make."""

SMALLEST_ROOT = float(np.finfo(np.float64).tiny)
"""Below this y loses digits and 1/y overflows; next to any z_m > 0 it is nothing."""


@dataclass(frozen=True)
class Optimum:
    """Importances that minimise a bound, and what they reach.

    Attributes:
        importance: p*, one entry for each client; not negative, summing to one.
        value: ψ/c1 at p*, without c0. Infinite if the ratio is.
        historical: importance of all clients without noise together, in the paper's case of the
            historical ones.
    """

    importance: Floats
    value: float
    historical: float


def optimal_importance(samples: npt.ArrayLike, fresh: npt.ArrayLike, ratio: float) -> Optimum:
    """Minimise the paper's ψ(p; c)/c1 = √(Σ_fresh p_m²) + (c2/c1)·√(Σ p_m²/n_m) over p.

    Exact up to rounding, in time linear in the number of clients. At ``ratio`` 0 the minimisers can
    be many; the answer is then the limit from above: Historical, or equal importance if all clients
    are fresh. At ``ratio = inf`` it is Uniform, p_m = n_m, and the value is infinite.

    Args:
        samples: N_m, how many samples each client has in the whole run; only their proportions
            matter.
        fresh: True for each client that streams, False for each that keeps its samples all the
            time.
        ratio: c2/c1, from 0 to infinity.

    Returns:
        The importances, ψ/c1 there, and the importance of the historical clients together.

    Example:
        >>> best = optimal_importance([100, 100, 400, 400], [False, False, True, True], ratio=0.5)
        >>> best.importance.round(4).tolist(), round(best.historical, 4)
        ([0.2372, 0.2372, 0.2628, 0.2628], 0.4744)
        >>> fresh = [False, False, True, True]
        >>> optimal_importance([100, 100, 400, 400], fresh, ratio=0.3).historical
        1.0

    Reference:
        Marfoq et al., Federated Learning for Data Streams, Corollary 1 and section 4.
    """
    sizes = relative_sizes(samples)
    return _solve(sizes, mask(fresh, sizes.size), number(ratio, "ratio", infinite=True))


def minimise(noise: npt.ArrayLike, samples: npt.ArrayLike, ratio: float) -> Optimum:
    """Minimise √(Σ v_m p_m²) + (c2/c1)·√(Σ p_m²/n_m) over p, for any noise v_m ≥ 0.

    With v_m = 1 for fresh and 0 for historical clients this is :func:`optimal_importance`. With the
    variability that a ledger gives for each client, 1/b_m − 1/N_m for one that keeps only the
    newest b_m samples, it is the minimiser of the sharper bound.

    Args:
        noise: v_m, the gradient noise of each client at importance one; a mask stands for ones and
            zeros.
        samples: N_m, the number of samples that each client counts for; only their proportions
            matter.
        ratio: c2/c1, from 0 to infinity; both ends are answered as limits.

    Returns:
        The importances, the minimum, and the importance of the clients without noise together.

    Example:
        >>> minimise([0.0, 1.0], [1, 1], ratio=1.0).importance.round(4).tolist()
        [0.7887, 0.2113]
    """
    sizes = relative_sizes(samples)
    return _solve(sizes, noises(noise, sizes.size), number(ratio, "ratio", infinite=True))


def _solve(sizes: Floats, noise: Noise, ratio: float) -> Optimum:
    # The noise is brought to at most one, so that nothing overflows; A and r change by √scale.
    scale = float(noise.max()) or 1.0
    spread: Floats = noise / scale
    spread *= sizes
    root = _root(_Curve(sizes, spread), ratio / math.sqrt(scale))
    importance = _importance(sizes, spread, root)
    noisy, thin = norms(importance, sizes, noise)
    return Optimum(importance, noisy + ratio * thin, quiet_share(importance, noise))


class _Curve:
    """The increasing curve G(y) and its slope."""

    def __init__(self, sizes: Floats, spread: Floats) -> None:
        self.sizes, self.spread = sizes, spread
        self.least = float(spread.min())
        quiet, noisy, inverse, moment = totals(self._ends(here) for here in pieces(sizes.size))
        self.start = math.sqrt(quiet / inverse) if noisy else math.inf  # G(0)
        self.stretch = math.sqrt(moment / noisy) if noisy else 0.0  # G(y) ≥ y/stretch

    def _ends(self, here: slice) -> tuple[float, float, float, float]:
        """Σ n over z = 0, Σ n over z > 0, Σ n/z over z > 0, and Σ n z."""
        size, spread = self.sizes[here], self.spread[here]
        noisy = spread > 0
        inverse = np.divide(size, spread, out=np.zeros_like(size), where=noisy)
        return float(size @ ~noisy), float(size @ noisy), float(inverse.sum()), float(size @ spread)

    def at(self, y: float) -> tuple[float, float]:
        """Return G(y) and dG/dy, for y > 0."""
        # Sums over ((y + least)/(y + z))^k have all their terms within [0, 1], however small y is.
        scale = y + self.least
        square, weighted, cube = totals(
            self._sums(here, y, scale) for here in pieces(self.sizes.size)
        )
        value = y * math.sqrt(square / weighted)
        return value, value * (cube / scale) * (1 / (y * square) + 1 / weighted)

    def _sums(self, here: slice, y: float, scale: float) -> tuple[float, float, float]:
        """Σ n w², Σ n z w² and Σ n z w³ for w = scale/(y + z); so Q = (y/scale)²·Σ n w²."""
        weight = self.spread[here] + y
        np.divide(scale, weight, out=weight)
        power = weight * weight
        square = float(self.sizes[here] @ power)
        moment = self.sizes[here] * self.spread[here]
        weighted = float(moment @ power)
        np.multiply(power, weight, out=power)
        return square, weighted, float(moment @ power)


def _root(curve: _Curve, ratio: float) -> float:
    """Solve G(y) = r for y; zero at the corner, infinite where sizes alone decide.

    Newton's method on the increasing G, kept inside a bracket around its only root.
    """
    if ratio == math.inf or curve.stretch == 0:
        return math.inf
    low = 0.0
    high = y = ratio * curve.stretch  # G(y) ≥ y/stretch, so the root is not beyond this
    if ratio <= curve.start or high < SMALLEST_ROOT:
        return 0.0
    for passes in count(1):
        value, slope = curve.at(y)
        step = y - (value - ratio) / slope
        if abs(step - y) <= STEP_TOLERANCE * y or abs(value - ratio) <= ROUNDING * ratio:
            break
        low, high = (low, y) if value > ratio else (y, high)
        # Every eighth pass halves the bracket in any case, so that no shape can hold it up.
        if not low < step < high or passes % 8 == 0:
            step = math.sqrt(low * high) or high / 1024
        y = step
    return max(step, low)


def _importance(sizes: Floats, spread: Floats, root: float) -> Floats:
    """Return p_m ∝ n_m/(y + z_m), in the memory of ``spread``.

    At ten million clients a new array would cost more than the arithmetic.
    """
    least = float(spread.min())
    if root == math.inf:
        weight = sizes.copy()
    elif root + least == 0:
        weight = np.where(spread == 0, sizes, 0.0)
    else:
        weight = np.add(spread, root, out=spread)
        np.divide(root + least, weight, out=weight)
        weight *= sizes
    weight /= weight.sum()
    return weight
