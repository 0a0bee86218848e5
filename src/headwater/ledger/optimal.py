"""The paper's own strategy: the importance that minimises the bound on the true error (Section
5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from headwater.errors import InputError
from headwater.ledger.holdings import Holdings
from headwater.ledger.strategies import Importance
from headwater.planner import exact_noise, minimise
from headwater.randomness import Floats


@dataclass(frozen=True)
class Optimal:
    """Importance that minimises ψ(p) = c1·noise(p) + c2·√(Σ p_m²/n_m), for a given ratio c2/c1.

    Attributes:
        ratio: c2/c1 as the paper defines it; None: :func:`headwater.simulate` estimates it from the
            historical samples before the first round.
        bound: "paper": noise = √(Σ_fresh p_m²), the paper's Corollary 5.1. "sharp": noise = √(Σ v_m
            p_m²) with the exact variability v_m of each client's memory (:func:`client_noise`), for
            any arrivals and any rule. They agree for a single fresh client that sees one sample a
            round. The paper's noise is too large by a factor of up to √(b·(M − M_hist)), so "sharp"
            gives fresh clients more: the more of them there are, and the more samples each holds.

    >>> from headwater import Constant, Fifo, Keep, Ledger, Once
    >>> old, new = [Once()] * 25, [Constant(16)] * 25
    >>> memories = [Keep()] * 25 + [Fifo(16)] * 25
    >>> counts = [400] * 25 + [1600] * 25
    >>> ledger = Ledger.of(counts, old + new, memories, Optimal(ratio=0.15), rounds=100)
    >>> round(ledger.historical_share, 4)
    0.4522
    """

    ratio: float | None = None
    bound: Literal["paper", "sharp"] = "paper"

    def __post_init__(self) -> None:
        if self.bound not in ("paper", "sharp"):
            raise InputError(f"Optimal(bound): 'paper' or 'sharp'; got {self.bound!r}")
        if self.ratio is not None and not self.ratio >= 0:
            raise InputError(f"Optimal(ratio): c2/c1, a number ≥ 0; got {self.ratio!r}")

    def weights(self, holdings: Holdings) -> Floats:
        """λ from the minimiser's importance."""
        return Importance(self.importance(holdings)).weights(holdings)

    def importance(self, holdings: Holdings) -> Floats:
        """p*, one number a client."""
        if self.ratio is None:
            raise InputError(
                "Optimal(ratio): give c2/c1, or leave it to simulate(), which estimates it"
            )
        there = holdings.samples > 0
        fresh = ~holdings.historical
        noise = fresh.astype(np.float64)
        if self.bound == "sharp":
            noise = exact_noise(client_noise(holdings), int((fresh & there).sum()))
        importance = np.zeros(holdings.clients)
        importance[there] = minimise(noise[there], holdings.samples[there], self.ratio).importance
        return importance


def client_noise(holdings: Holdings) -> Floats:
    """v_m: how much a client's samples of a round differ from its samples of the run, in units of
    σ0².

    v_m = T Σ_t Σ_i s_i(t)² − Σ_i (Σ_t s_i(t))² with s_i(t) the share of the client's own weight
    that sample i has in round t, every sample counting the same over the run: T/N_m² · Σ_i 1/τ_i −
    1/N_m. It is 0 for a historical client, and 1/b − 1/N for a fresh client that keeps its b newest
    samples. A run's variability is Σ_m p_m² v_m if all rounds count the same.

    >>> from headwater import Constant, Fifo, Keep, Once, unroll
    >>> client_noise(unroll([5, 40], [Once(), Constant(4)], [Keep(), Fifo(4)], rounds=10))
    array([0.   , 0.225])
    """
    held = holdings.rounds_held
    inverse = np.divide(1.0, held, where=held > 0, out=np.zeros(len(held)))
    samples = np.maximum(holdings.samples, 1)
    noise = holdings.rounds * holdings.per_client(inverse) / np.square(samples) - 1 / samples
    return np.where(
        noise > 1e-12 * holdings.rounds / samples, noise, 0.0
    )  # dust: a historical client has none
