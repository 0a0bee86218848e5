"""Strategies that leave something open, and how it is found before the first round."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from headwater.learning.estimation.heterogeneity import measure_heterogeneity
from headwater.learning.estimation.horizon import measure_horizon
from headwater.learning.estimation.ratio import estimate
from headwater.learning.federation import Federation
from headwater.learning.losses import Loss, cross_entropy
from headwater.ledger.forgetting import Forgetting
from headwater.ledger.holdings import Holdings
from headwater.ledger.optimal import Optimal
from headwater.ledger.remembered import Remembered
from headwater.ledger.remembered_online import RememberedOnline
from headwater.ledger.strategies import Strategy
from headwater.ledger.target import Target


def resolve(
    strategy: Strategy,
    model: nn.Module,
    federation: Federation,
    holdings: Holdings,
    loss: Loss = cross_entropy,
    seed: int = 0,
    rate: float | None = None,
) -> Strategy:
    """The strategy itself or, where something is left open, the same with what is found for it.

    ``Optimal()`` without a ratio and ``Target()`` without constants get the paper's estimate;
    ``Remembered()`` without a horizon or a heterogeneity gets what is measured. ``rate`` is the
    mean learning rate of the run, on which the horizon hangs; without it the horizon stays open.

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
    if isinstance(strategy, Remembered):
        return _remembered(strategy, model, federation, holdings, loss, seed, rate)
    if isinstance(strategy, Forgetting):
        base = resolve(strategy.base, model, federation, holdings, loss, seed, rate)
        return replace(strategy, base=base)
    return strategy


def _remembered(
    strategy: Remembered,
    model: nn.Module,
    federation: Federation,
    holdings: Holdings,
    loss: Loss,
    seed: int,
    rate: float | None,
) -> Remembered:
    """The rule with both of its numbers."""
    if strategy.heterogeneity is None:
        seen = measure_heterogeneity(model, federation, loss, seed, rounds=holdings.rounds)
        strategy = replace(strategy, heterogeneity=seen.ratio.value)
    if strategy.horizon is None and rate is not None:
        drawing = holdings.drawing
        found = measure_horizon(
            model,
            federation,
            rate,
            holdings.rounds,
            drawing.local_steps,
            loss,
            seed,
            batch_size=drawing.batch_size,
        )
        strategy = replace(strategy, horizon=_horizon(strategy, found.value, holdings.rounds))
    return strategy


def _horizon(strategy: Remembered, measured: float, rounds: int) -> float:
    """A measured τ as the strategy takes it.

    As a fraction of the run, since it is no whole number; but the online form takes fractions of
    the rounds so far, so it gets rounds.
    """
    if isinstance(strategy, RememberedOnline):
        return max(1, round(measured))
    return min(1.0, measured / rounds)
