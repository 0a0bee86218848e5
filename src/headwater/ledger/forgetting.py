"""Forgetting: when the errors say that the streams have changed, what is old no longer counts.

:class:`~headwater.ledger.fading.Fading` forgets at one pace, whether anything changes or not. Here
the samples that arrive say when: each is tested before it is learned from, and the mean error of
each round goes to ADWIN (Bifet, Gavaldà: *Learning from time-changing data with adaptive
windowing*, 2007), as it comes with river. ADWIN keeps a window of rounds and raises an alarm when
the means of an older and a newer part of it differ by more than chance allows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from headwater.errors import InputError
from headwater.ledger.checks import is_number
from headwater.ledger.holdings import Holdings
from headwater.ledger.strategies import ByMemory, Strategy, Weights
from headwater.randomness import Floats


@dataclass(frozen=True)
class Forgetting:
    """As another strategy weighs; from an alarm on, only what has arrived since.

    In a round in which nobody who counts holds anything newer than the last alarm, old samples
    count as before: they are better than none. A round's weight q(t) stays what it was.

    Needs river: ``pip install "headwater[drift]"``.

    Attributes:
        base: How much each sample counts as long as nothing changes.
        delta: The chance of a false alarm that ADWIN is set to, between 0 and 1.
        alarms: The rounds from which on what arrived before them is forgotten; a run finds them.

    Example:
        >>> from headwater import Fifo, Ledger, Trace
        >>> ledger = Ledger.of([4], Trace([1, 1, 1, 1]), Fifo(3), Forgetting(alarms=(3,)), rounds=4)
        >>> ledger.weights_at(2), ledger.weights_at(3)
        (array([1., 1., 0., 0.]), array([0., 0., 3., 0.]))
    """

    base: Strategy = field(default_factory=ByMemory)
    delta: float = 0.002
    alarms: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.base, type) or not isinstance(self.base, Strategy):
            raise InputError(f"Forgetting(base): ByMemory() or the like; got {self.base!r}")
        if not is_number(self.delta) or not 0 < self.delta < 1:
            raise InputError(f"Forgetting(delta): a chance between 0 and 1; got {self.delta!r}")

    def weights(self, holdings: Holdings) -> Weights:
        """Give the base's weights, or a function of the round once something is forgotten."""
        given = self.base.weights(holdings)
        if not self.alarms:
            return given

        def at(round: int) -> Floats:
            known = given(round) if callable(given) else given
            weights = np.where(holdings.held(round), known, 0.0)
            since = max((alarm for alarm in self.alarms if alarm <= round), default=1)
            kept = np.where(holdings.enter >= since, weights, 0.0)
            # What is left takes over the weight of what is forgotten.
            return kept * (weights.sum() / kept.sum()) if kept.any() else weights

        return at

    def after(self, alarm: int) -> Forgetting:
        """The strategy once it has heard an alarm."""
        return replace(self, alarms=(*self.alarms, alarm))


class Detector:
    """Hears the mean error of each round, and says when errors have grown.

    ADWIN also notices errors that fall, as they do while a model learns; that is no reason to
    forget.

    Args:
        delta: The chance of a false alarm.
    """

    def __init__(self, delta: float) -> None:
        try:
            from river import drift
        except ImportError as error:
            raise InputError(f'Forgetting: pip install "headwater[drift]" ({error})') from error
        # A number a round is so little that ADWIN may look for changes after each.
        make: Any = drift.ADWIN  # which has no types
        self._window = make(delta=delta, clock=1)

    def hears(self, error: float) -> bool:
        """Take in a round's mean error; have errors grown?"""
        before = self._window.estimation
        self._window.update(error)
        # The alarm has dropped the window's oldest part: was that one better than the rest?
        return bool(self._window.drift_detected) and self._window.estimation > before
