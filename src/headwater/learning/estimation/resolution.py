"""Strategies that leave something open, and how it is found before the first round."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from headwater.learning.estimation.heterogeneity import measure_heterogeneity
from headwater.learning.estimation.ratio import estimate
from headwater.learning.federation import Federation
from headwater.learning.losses import Loss, cross_entropy
from headwater.ledger.holdings import Holdings
from headwater.ledger.optimal import Optimal
from headwater.ledger.remembered import Remembered
from headwater.ledger.strategies import Strategy
from headwater.ledger.target import Target


def resolve(
    strategy: Strategy,
    model: nn.Module,
    federation: Federation,
    holdings: Holdings,
    loss: Loss = cross_entropy,
    seed: int = 0,
) -> Strategy:
    """The strategy itself or, where its prices are left open, the same with the paper's estimate.

    Those are ``Optimal()`` without a ratio, ``Target()`` without constants and ``Remembered()``
    without a heterogeneity, for which it is measured.

    >>> from headwater.ledger.strategies import Uniform
    >>> resolve(Uniform(), None, None, None)
    Uniform()
    """
    if isinstance(strategy, Optimal) and strategy.ratio is None:
        found = estimate(model, federation, loss, seed=seed, rounds=holdings.rounds)
        return replace(strategy, ratio=found.ratio)
    if isinstance(strategy, Target) and strategy.constants is None:
        found = estimate(model, federation, loss, seed=seed, rounds=holdings.rounds)
        return replace(strategy, constants=found.constants)
    if isinstance(strategy, Remembered) and strategy.heterogeneity is None:
        seen = measure_heterogeneity(model, federation, loss, seed, rounds=holdings.rounds)
        return replace(strategy, heterogeneity=seen.ratio.value)
    return strategy
