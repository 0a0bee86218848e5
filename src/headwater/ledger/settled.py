"""Importances that agree with the noise that they lead to.

A client's noise depends on how much the rounds count in which it is there, and that depends on the
importances. Where all rounds count the same, whatever the importances, the first answer is the
last. Elsewhere, as with clients that come and go, noise and importances are found in turns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from headwater.errors import InputError
from headwater.ledger.client_terms import ClientTerms
from headwater.planner import exact_noise
from headwater.randomness import Floats

Bound = Literal["paper", "sharp"]
"""Whose noise a bound speaks of: Corollary 5.1's, or the exact one."""

AGREEMENT = 1e-11
"""Relative change of the rounds' shares at which noise and importances are said to agree."""

MOST_TURNS = 400
"""How often noise and importances are computed from each other before giving up."""

EMPTY_ROUND = 1e-12
"""Least share of a round: the noise of a client alone in a round that does not count is endless."""


def check_bound(strategy: str, bound: object) -> None:
    """Refuse what is neither of the two."""
    if bound not in ("paper", "sharp"):
        raise InputError(f"{strategy}(bound): 'paper' or 'sharp'; got {bound!r}")


def least_bound(bound: Bound, terms: ClientTerms, minimiser: Callable[[Floats], Floats]) -> Floats:
    """Give the importances that are best for the noise that a bound speaks of.

    Args:
        bound: "paper": every fresh client has noise 1; "sharp": the exact noise.
        terms: the clients' noise.
        minimiser: gives the importances that are best for a given noise of each client.

    Returns:
        One number per client.
    """
    fresh = ~terms.holdings.historical & (terms.holdings.collected > 0)
    if bound == "paper":
        return minimiser(fresh.astype(np.float64))
    # c1 holds the paper's slack factor √(M − M_hist), which the exact noise does not need.
    many = int(fresh.sum())
    return settled(terms, lambda noise: minimiser(exact_noise(noise, many)))


def settled(terms: ClientTerms, minimiser: Callable[[Floats], Floats]) -> Floats:
    """Find importances that minimise a bound with the exact noise of their own rounds.

    Args:
        terms: the clients' noise.
        minimiser: gives the importances that are best for a given noise of each client.

    Returns:
        One number per client.
    """
    shares = np.full(terms.holdings.rounds, 1 / terms.holdings.rounds)
    # Begin as if all rounds counted the same, which is often so.
    importance = minimiser(terms.noise())
    for turn in range(MOST_TURNS):
        now = np.maximum(terms.round_shares(importance), EMPTY_ROUND)
        if np.abs(now / shares - 1).max() < AGREEMENT:
            return importance
        # Half-way steps end a swing between two answers, should there be one.
        shares = now if turn < MOST_TURNS // 4 else (shares + now) / 2
        importance = minimiser(terms.noise(shares))
    raise InputError(
        "bound='sharp': no importances agree with the noise that they lead to, as the rounds of "
        "this federation count very differently; take bound='paper', or Remembered()"
    )
