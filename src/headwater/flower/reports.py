"""What clients report with their updates: believed only where it makes sense."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from headwater.flower.roster import LARGEST, Standing

RECENT = ("recent_loss", "recent_metric")
"""What test-then-train says of the latest samples: how good the model is now, by a node's words."""


def reported(client: Standing, report: Mapping[str, float] | None, round: int) -> dict[str, Any]:
    """What changes in a client's standing after a round; without a report it was absent."""
    if report is None:
        return {"asked": client.asked + 1}
    # Counts never fall, and nobody holds more than has arrived, whatever a client claims.
    arrived = max(client.arrived, int(min(report.get("arrived", client.arrived), LARGEST)))
    held = int(report.get("held", client.held))
    measures = {name: report.get(f"prequential-{name}") for name in ("count", *RECENT)}
    return {
        "asked": client.asked + 1,
        "answered": client.answered + 1,
        "heard": round,
        "arrived": arrived,
        "held": min(max(held, 0), arrived),
        "rate": max(0.0, _believed(report.get("rate", client.rate))),
        "prequential": {n: _believed(value) for n, value in measures.items() if value is not None},
        "seen": time.time(),
    }


def _believed(value: float) -> float:
    """Finite numbers whose sums and products would not be finite are cut off."""
    return min(max(value, -float(LARGEST)), float(LARGEST))


def pooled(
    reports: Sequence[Mapping[str, float]], measures: Sequence[str], prefix: str = ""
) -> dict[str, float]:
    """Means over all clients, each by the samples that it has counted.

    >>> pooled([{"count": 1, "loss": 4.0}, {"count": 3, "loss": 0.0}, {}], ("loss", "metric"))
    {'count': 4, 'loss': 1.0}
    """
    counted = [report for report in reports if report.get("count", 0) > 0]
    total = sum(report["count"] for report in counted)
    found = {f"{prefix}count": total} if total else {}
    for name in measures:
        known = [report for report in counted if name in report]
        if known:
            weight = sum(report["count"] for report in known)
            mean = sum(report["count"] * report[name] for report in known) / weight
            found[f"{prefix}{name}"] = mean
    return found
