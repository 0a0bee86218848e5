"""What can be seen of a fleet: one snapshot for the terminal, the page and ``--json``.

Everything is read from files that the parts write anyway, so looking costs the fleet nothing and
works without it.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from headwater.errors import InputError
from headwater.files import UNREADABLE
from headwater.flower.deployment.layout import Fleet
from headwater.flower.deployment.processes import Part
from headwater.flower.journal import Entry, Journal
from headwater.flower.reports import RECENT

Snapshot = dict[str, Any]
_HISTORY = 400  # rounds of the curve


def snapshot(fleet: Fleet) -> Snapshot:
    """The fleet as it is now."""
    entries = _entries(fleet.folder / "run" / "rounds.jsonl")
    tests = _tests(fleet.folder / "run" / "tests.jsonl")
    last = entries[-1] if entries else None
    return {
        "folder": str(fleet.folder),
        "strategy": fleet.learning.strategy,
        "secure": fleet.secure,
        "round": last.round if last else 0,
        "rounds": fleet.learning.rounds or None,
        "seconds": last.seconds if last else None,
        "age": time.time() - last.time if last else None,
        "prequential": _measures(last.metrics, "prequential-") if last else {},
        "test": {k: v for k, v in tests[-1].items() if k != "time"} if tests else {},
        "clients": _clients(fleet, last),
        "parts": _parts(fleet),
        "history": [
            {"round": entry.round, **_measures(entry.metrics, "prequential-")}
            for entry in entries[-_HISTORY:]
        ],
        "tests": [{"round": t["round"], "metric": t.get("metric")} for t in tests[-_HISTORY:]],
    }


def _entries(path: Path) -> list[Entry]:
    try:
        return Journal(path).tail()
    except InputError:  # it is being written anew after a restart: look again later
        return []


def _tests(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    lines = path.read_text().splitlines()[-_HISTORY:]
    return [json.loads(line) for line in lines if line.endswith("}")]


def _clients(fleet: Fleet, last: Entry | None) -> list[dict[str, Any]]:
    standings = _standings(fleet.folder / "run" / "state.npz")
    numbers = {row["name"]: m for m, row in enumerate(standings)}
    rows = []
    for name in fleet.clients:
        number = numbers.get(name)
        known = {} if number is None else standings[number]
        shares = _shares(last, number)
        rows.append(
            {
                "name": name,
                "historical": name in fleet.historical,
                "arrived": known.get("arrived"),
                "held": known.get("held"),
                "capacity": known.get("capacity"),
                "share": shares[0],
                "counted": shares[1],
                "seen": time.time() - known["seen"] if known.get("seen") else None,
                "refused": last.refused.get(str(number)) if last else None,
                **_measures(known.get("prequential", {}), ""),
            }
        )
    return rows


def _shares(last: Entry | None, number: int | None) -> tuple[float | None, float | None]:
    """What a client was planned to count, and what it did count."""
    if last is None or number not in last.client:
        return None, None
    place = last.client.index(number)
    return last.planned[place], last.counted[place]


def _standings(path: Path) -> list[dict[str, Any]]:
    try:
        with np.load(path, allow_pickle=False) as saved:
            return list(json.loads(str(saved["about"]))["roster"])
    except UNREADABLE:
        return []


def _parts(fleet: Fleet) -> list[dict[str, Any]]:
    path = fleet.folder / "parts.json"
    rows = json.loads(path.read_text()) if path.exists() else []
    return [row | {"alive": Part(row["name"], row["pid"], path).alive} for row in rows]


def _measures(numbers: dict[str, float], prefix: str) -> dict[str, float]:
    names = ("count", *RECENT)
    return {name: numbers[prefix + name] for name in names if prefix + name in numbers}
