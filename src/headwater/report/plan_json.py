"""The planner's answer as JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence

from headwater.fleet import Comparison, Outcome
from headwater.fleet.recommendation import recommend

Json = Mapping[str, "Json"] | Sequence["Json"] | str | float | bool | None
"""What JSON can hold."""


def plan_json(
    about: Mapping[str, Json], comparison: Comparison, outcomes: Sequence[Outcome]
) -> str:
    """All that the tables show, and every client's share."""
    summary: Mapping[str, Json] = {
        **about,
        "rounds": comparison.outlook.rounds,
        "local_steps": comparison.outlook.drawing.local_steps,
        "batch_size": comparison.outlook.drawing.batch_size,
        "bound": comparison.bound,
        "rows": _rows(comparison),
        "recommendation": recommend(comparison),
        "remembered": {
            "horizon": comparison.remembered.horizon,
            "heterogeneity": comparison.remembered.heterogeneity,
        },
        "historical_suffices_up_to": comparison.historical_suffices,
        "clients": _clients(comparison),
        "what_if": [_outcome(outcome) for outcome in outcomes],
    }
    text = json.dumps(_finite(summary), indent=2, allow_nan=False, ensure_ascii=False)
    return _UNSEEN.sub(_escaped, text)


def _rows(comparison: Comparison) -> Sequence[Json]:
    return [
        {
            "order": place,
            "strategy": p.strategy,
            "historical_share": p.historical,
            "effective_samples": p.effective_samples,
            "noise": p.noise,
            "few_samples": p.few_samples,
            "bound": p.total,
            "remembered_error": p.remembered_error,
        }
        for place, p in enumerate(comparison.prospects, 1)
    ]


def _clients(comparison: Comparison) -> Sequence[Json]:
    """One entry per row: its share together, and that of each of its clients."""
    o = comparison.outlook
    share = comparison.best.importance
    columns: Mapping[str, Sequence[Json]] = {
        "client": o.names,
        "kind": o.kinds,
        "count": o.count.astype(int).tolist(),
        "samples": o.terms.samples.astype(int).tolist(),
        "samples_as_drawn": o.terms.drawable.tolist(),
        "fresh": o.fresh.tolist(),
        "share": share.tolist(),
        "share_of_each": (share / o.count).tolist(),
        "remembered_share": comparison["remembered"].importance.tolist(),
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _outcome(outcome: Outcome) -> Json:
    return {
        "scenario": outcome.scenario,
        "historical_share": outcome.historical,
        "effective_samples": outcome.effective_samples,
        "bound": outcome.total,
        "clients": {n: {"now": now, "then": then} for n, (now, then) in outcome.named.items()},
    }


def _finite(value: Json) -> Json:
    """JSON has no infinity: null stands for it."""
    if isinstance(value, Mapping):
        return {name: _finite(v) for name, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# What a terminal would act on instead of showing it: C1 controls, marks that turn text around,
# separators of lines. JSON itself escapes the controls below 0x20 only.
_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
