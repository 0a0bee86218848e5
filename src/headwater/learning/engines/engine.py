"""What an engine is: one verb."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from headwater.ledger.orders import Orders


class Engine(Protocol):
    """Executes a round's work. All engines give the plain loop's numbers, within rounding."""

    def moves(self, parameters: Tensor, orders: Orders, learning_rate: float) -> Tensor:
        """Lines 3–13 of Algorithm 1: Σ_m share_m (θ_m(t, E+1) − θ(t))."""
        ...

    def close(self) -> None:
        """Let go of processes."""
        ...
