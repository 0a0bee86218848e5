"""Test, then train: the honest error of a stream.

Before a sample enters the memory it is predicted with the current model, which has never seen it.
The mean over all samples so far is the prequential error; a mean that forgets (Gama, Sebastião,
Rodrigues: *On evaluating stream learning algorithms*, 2013) shows how good the model is now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.devices.memory.state import State
from headwater.randomness import Floats

FADING = 0.995  # a sample that came 138 samples ago counts half

Score = Callable[[NDArray[Any], NDArray[Any]], tuple[Floats, Floats]]


class Prequential:
    """Running sums of what new samples' predictions were like, kept with the memory."""

    def __init__(self, state: State) -> None:
        self._state = state

    def add(self, losses: Floats, metrics: Floats) -> None:
        """More samples were predicted, in this order. Call it in their transaction.

        One infinite loss would stay in the means for good, so what is not finite is only counted.
        """
        finite = np.isfinite(losses) & np.isfinite(metrics)
        self._state.add("not_finite", int((~finite).sum()))
        losses, metrics = losses[finite], metrics[finite]
        count = len(losses)
        if not count:
            return
        fading = FADING ** np.arange(count - 1, -1, -1)
        self._state.add("scored", count)
        self._fade("weight", FADING**count, float(fading.sum()))
        for name, values in (("loss", losses), ("metric", metrics)):
            self._state.add(f"scored_{name}", float(values.sum()))
            self._fade(name, FADING**count, float(fading @ values))

    def report(self) -> dict[str, float | int | None]:
        """Number of samples predicted, mean loss and metric of all, and of the latest."""
        count = self._state.number("scored")
        weight = float(self._state.get("fading_weight") or 0.0)
        report: dict[str, float | int | None] = {"count": count}
        for name in ("loss", "metric"):
            total, recent = (
                float(self._state.get(f"{kind}_{name}") or 0.0) for kind in ("scored", "fading")
            )
            report[name] = total / count if count else None
            report[f"recent_{name}"] = recent / weight if weight else None
        return report

    def _fade(self, name: str, factor: float, amount: float) -> None:
        before = float(self._state.get(f"fading_{name}") or 0.0)
        self._state.set(f"fading_{name}", before * factor + amount)
