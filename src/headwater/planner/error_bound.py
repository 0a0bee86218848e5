"""The bound on the true error and its terms, as a function of the clients' importances."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headwater.planner.checks import (
    Floats,
    Noise,
    counts,
    distribution,
    finite,
    mask,
    noises,
    number,
    relative_sizes,
)
from headwater.planner.constants import Constants
from headwater.planner.passes import pieces, totals


@dataclass(frozen=True)
class BoundTerms:
    """The bound's terms apart; they add up to ``total``.

    Attributes:
        constant: c0, which no choice of importances changes.
        noise: c1·√(Σ v_m p_m²), the cost of rounds that differ; in the paper's case
            c1·√(Σ_fresh p_m²).
        few_samples: c2'·√(Σ p_m²/n_m) = c2'·√(N/N_eff), the cost of few effective samples.
        discrepancy: the cost of learning from other proportions of clients than those wanted.
    """

    constant: float
    noise: float
    few_samples: float
    discrepancy: float

    @property
    def total(self) -> float:
        """The bound itself."""
        return self.constant + self.noise + self.few_samples + self.discrepancy


def bound(
    importance: npt.ArrayLike,
    samples: npt.ArrayLike,
    fresh: npt.ArrayLike,
    c0: float = 0.0,
    c1: float = 1.0,
    c2: float = 0.15,
) -> float:
    """Evaluate the paper's ψ(p; c) = c0 + c1·√(Σ_fresh p_m²) + c2·√(Σ p_m²/n_m).

    Args:
        importance: p_m, the share of the training that each client gets; sums to one.
        samples: N_m, how many samples each client has in the whole run; only their proportions
            matter.
        fresh: True for each client that streams, False for each that keeps its samples all the
            time.
        c0: what no choice of importances changes.
        c1: price of the gradient noise.
        c2: price of few effective samples and of the clients' discrepancy.

    Returns:
        The bound on the true error.

    Example:
        >>> bound([0.5, 0.5], [300, 100], [False, True], c1=1.0, c2=0.5)
        1.07735...

    Reference:
        Marfoq et al., Federated Learning for Data Streams, Corollary 1.
    """
    sizes = relative_sizes(samples)
    shares = distribution(importance, sizes.size, "importance")
    noisy, thin = norms(shares, sizes, mask(fresh, sizes.size))
    return finite(c0, "c0") + number(c1, "c1") * noisy + number(c2, "c2") * thin


def bound_terms(
    importance: npt.ArrayLike,
    samples: npt.ArrayLike,
    noise: npt.ArrayLike,
    constants: Constants,
    target: npt.ArrayLike | None = None,
) -> BoundTerms:
    """Evaluate the bound term by term, for the target p_m = n_m or any other.

    Without a ``target`` the learner should do well on all samples alike, α_m = n_m, and the
    discrepancy term is 2·disc·√(Σ p_m²/n_m), as in ψ. With a target α it is the tighter
    2·disc·‖α − p‖₁ of the general corollary.

    Args:
        importance: p_m, the share of the training that each client gets; sums to one.
        samples: N_m, how many samples each client has in the whole run; only their proportions
            matter.
        noise: the mask of the fresh clients (the paper's bound) or v_m ≥ 0 for each client (the
            sharper one).
        constants: the prices of the terms.
        target: α_m, how much each client should count in the end; sums to one.

    Returns:
        The terms and, as ``total``, their sum.

    Example:
        >>> prices = Constants(c0=0.0, c1=1.0, few_samples=0.3, discrepancy=0.1)
        >>> terms = bound_terms([0.5, 0.5], [300, 100], [False, True], prices)
        >>> terms.total == bound([0.5, 0.5], [300, 100], [False, True], c1=1.0, c2=prices.c2)
        True
        >>> target = [0.75, 0.25]
        >>> bound_terms([0.5, 0.5], [300, 100], [False, True], prices, target=target).discrepancy
        0.1

    Reference:
        Marfoq et al., Federated Learning for Data Streams, Corollary 1 and its general case in the
        appendix.
    """
    sizes = relative_sizes(samples)
    shares = distribution(importance, sizes.size, "importance")
    noisy, thin = norms(shares, sizes, noises(noise, sizes.size))
    distance = thin
    if target is not None:
        distance = float(np.abs(distribution(target, sizes.size, "target") - shares).sum())
    return BoundTerms(
        constant=constants.c0,
        noise=constants.c1 * noisy,
        few_samples=constants.few_samples * thin,
        discrepancy=2 * (constants.discrepancy * distance),
    )


def norms(importance: Floats, sizes: Floats, noise: Noise) -> tuple[float, float]:
    """Return √(Σ v_m p_m²) and √(Σ p_m²/n_m), of which every form of the bound is made."""

    def part(here: slice) -> tuple[float, float]:
        square = importance[here] * importance[here]
        return float(square @ noise[here]), float((square / sizes[here]).sum())

    noisy, thin = totals(part(here) for here in pieces(sizes.size))
    return math.sqrt(noisy), math.sqrt(thin)


def quiet_share(importance: Floats, noise: Noise) -> float:
    """Return the share of the importance that clients without noise have."""

    def part(here: slice) -> tuple[float, float]:
        quiet = noise[here] == 0
        return float(importance[here] @ quiet), float(importance[here] @ ~quiet)

    quiet, noisy = totals(part(here) for here in pieces(noise.size))
    return quiet / (quiet + noisy)


def effective_samples(importance: npt.ArrayLike, samples: npt.ArrayLike) -> float:
    """Effective number of samples N_eff = 1 / Σ p_m²/N_m.

    It is the number of equally counting samples that would generalise as well, when the samples of
    a client share its importance equally.

    >>> effective_samples([0.75, 0.25], [300, 100])
    400.0
    >>> effective_samples([1.0, 0.0], [300, 100])
    300.0
    """
    counted = counts(samples)
    shares = distribution(importance, counted.size, "importance")
    return 1 / float((shares * (shares / counted)).sum())
