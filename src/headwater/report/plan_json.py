"""The planner's answer as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from headwater.fleet import Comparison, Outcome
from headwater.fleet.recommendation import recommend


def plan_json(about: dict[str, Any], comparison: Comparison, outcomes: Sequence[Outcome]) -> str:
    """All that the tables show, and every client's share."""
    summary = {
        **about,
        "rounds": comparison.outlook.rounds,
        "bound": comparison.bound,
        "rows": _rows(comparison),
        "recommendation": recommend(comparison),
        "historical_suffices_up_to": comparison.historical_suffices,
        "clients": _clients(comparison),
        "what_if": [_outcome(outcome) for outcome in outcomes],
    }
    return json.dumps(_finite(summary), indent=2, allow_nan=False, ensure_ascii=False)


def _rows(comparison: Comparison) -> list[dict[str, Any]]:
    return [
        {
            "order": place,
            "strategy": p.strategy,
            "historical_share": p.historical,
            "effective_samples": p.effective_samples,
            "noise": p.noise,
            "few_samples": p.size,
            "bound": p.total,
        }
        for place, p in enumerate(comparison.prospects, 1)
    ]


def _clients(comparison: Comparison) -> list[dict[str, Any]]:
    o = comparison.outlook
    numbers = (o.count.astype(int), o.samples.astype(int), o.fresh, comparison.best.importance)
    rows = zip(o.names, *(column.tolist() for column in numbers), strict=True)
    return [
        dict(zip(("client", "count", "samples", "fresh", "share"), row, strict=True))
        for row in rows
    ]


def _outcome(outcome: Outcome) -> dict[str, Any]:
    named = {name: {"now": now, "then": then} for name, (now, then) in outcome.clients.items()}
    return {
        "scenario": outcome.scenario,
        "historical_share": outcome.historical,
        "effective_samples": outcome.effective_samples,
        "bound": outcome.total,
        "clients": named,
    }


def _finite(value: Any) -> Any:
    """JSON has no infinity: null stands for it."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
