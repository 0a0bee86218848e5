"""The prices in the bound, from their definitions or from what a few samples tell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from headwater.errors import InputError
from headwater.planner.checks import finite, number
from headwater.planner.slack import slack


@dataclass(frozen=True)
class Constants:
    """The constants c of the bound, with c2 apart into its two sources.

    Attributes:
        c0: what no choice of importances changes, (C1 + C3)/√T + C2/√T³.
        c1: price of the gradient noise.
        few_samples: c2', price of few effective samples.
        discrepancy: max disc(P_m, P_m'), how much two clients' losses can differ for one model.
    """

    c0: float
    c1: float
    few_samples: float
    discrepancy: float

    def __post_init__(self) -> None:
        finite(self.c0, "c0")
        for name in ("c1", "few_samples", "discrepancy"):
            number(getattr(self, name), name)

    @property
    def c2(self) -> float:
        """Price of √(Σ p_m²/n_m) in ψ, c2' + 2·disc."""
        return self.few_samples + 2 * self.discrepancy

    @property
    def ratio(self) -> float:
        """c2/c1, all that the optimal importances depend on.

        It is infinite if there is no gradient noise.
        """
        return self.c2 / self.c1 if self.c1 else math.inf

    @classmethod
    def from_definitions(
        cls,
        *,
        gradient_noise: float,
        diameter: float,
        rounds: float,
        total_samples: float,
        fresh_clients: int,
        vc_dimension: float | None = None,
        parameters: float | None = None,
        discrepancy: float | None = None,
        loss_bound: float | None = None,
        c0: float = 0.0,
    ) -> Self:
        """Compute c1 = σ0·√(M − M_hist)·(D + 2/√T) and c2' = 4·√(1 + log(N/VC))·√(VC/N).

        The paper's main text subtracts 2·disc from c0, its appendix does not; c0 is an argument
        here, and does not change which importances are best.

        Args:
            gradient_noise: σ0, standard deviation of a sample's gradient, at most 2G.
            diameter: D, of the set of models.
            rounds: T.
            total_samples: N, of all clients.
            fresh_clients: M − M_hist. With 1, c1 is the price of the noise v_m of the sharper
                bound.
            vc_dimension: VC dimension of the models; or give ``parameters``.
            parameters: d, number of parameters of the model, taken for four times the VC dimension.
            discrepancy: max disc(P_m, P_m'); or give ``loss_bound``.
            loss_bound: B, largest possible loss, which the discrepancy cannot exceed.
            c0: what no choice of importances changes.

        Example:
            >>> constants = Constants.from_definitions(gradient_noise=2.0, diameter=1.0, rounds=100,
            ...     vc_dimension=10, total_samples=1000, fresh_clients=4, discrepancy=0.1)
            >>> round(constants.c1, 4), round(constants.few_samples, 4), round(constants.ratio, 4)
            (4.8, 0.947, 0.239)
        """
        total = number(total_samples, "total_samples", positive=True)
        complexity = _complexity(vc_dimension, parameters)
        spread = number(gradient_noise, "gradient_noise")
        spread *= slack(number(fresh_clients, "fresh_clients"))
        reach = number(diameter, "diameter")
        reach += 2 / math.sqrt(number(rounds, "rounds", positive=True))
        return cls(
            c0=c0,
            c1=spread * reach,
            few_samples=4 * math.sqrt(_log_factor(complexity, total) * (complexity / total)),
            discrepancy=_discrepancy(discrepancy, loss_bound),
        )

    @classmethod
    def approximate(
        cls,
        *,
        loss_bound: float,
        gradient_norm: float,
        diameter: float,
        parameters: float,
        total_samples: float,
        fresh_clients: int,
    ) -> Self:
        """Approximate c1 ≈ 2GD·√(M − M_hist), c2' ≈ 2·√(d/N) and disc ≈ B.

        The paper's appendix does so, and has c2/c1 ≈ (B + √(d/N)) / (G·D·√(M − M_hist)).

        The paper derives c1 from σ0 ≤ 2√2·LB; by its own lemma that should read 2·√(2LB) = 2G,
        which is what its final formula, and this one, uses.

        Args:
            loss_bound: B, largest loss.
            gradient_norm: G, largest norm of a sample's gradient.
            diameter: D, of the set of models.
            parameters: d, number of parameters of the model.
            total_samples: N, of all clients.
            fresh_clients: M − M_hist.

        Example:
            >>> cifar10 = Constants.approximate(loss_bound=2.3, gradient_norm=5.5, diameter=1.0,
            ...     parameters=3_353_034, total_samples=50_000, fresh_clients=25)
            >>> round(cifar10.ratio, 3)
            0.381
        """
        total = number(total_samples, "total_samples", positive=True)
        steepness = 2 * number(gradient_norm, "gradient_norm") * number(diameter, "diameter")
        return cls(
            c0=0.0,
            c1=steepness * slack(number(fresh_clients, "fresh_clients")),
            few_samples=2 * math.sqrt(number(parameters, "parameters") / total),
            discrepancy=number(loss_bound, "loss_bound"),
        )


def _complexity(vc_dimension: float | None, parameters: float | None) -> float:
    """The VC dimension, or a quarter of the number of parameters."""
    _one_of("vc_dimension", vc_dimension, "parameters", parameters)
    if vc_dimension is not None:
        return number(vc_dimension, "vc_dimension", positive=True)
    return number(parameters or 0.0, "parameters", positive=True) / 4


def _discrepancy(discrepancy: float | None, loss_bound: float | None) -> float:
    """The discrepancy, or the largest loss, which it cannot exceed."""
    _one_of("discrepancy", discrepancy, "loss_bound", loss_bound)
    if discrepancy is not None:
        return number(discrepancy, "discrepancy")
    return number(loss_bound or 0.0, "loss_bound")


def _one_of(name: str, value: float | None, other: str, instead: float | None) -> None:
    if (value is None) == (instead is None):
        raise InputError(f"give either {name} or {other}, and not both")


def _log_factor(vc_dimension: float, total_samples: float) -> float:
    """1 + log(N/VC), from Sauer's lemma, which holds for N ≥ VC only."""
    if total_samples < vc_dimension:
        raise InputError(
            f"total_samples is {total_samples:g} and the VC dimension {vc_dimension:g}: the "
            "definition of c2 "
            "needs at least as many samples; use Constants.approximate, which does without"
        )
    return 1 + math.log(total_samples / vc_dimension)
