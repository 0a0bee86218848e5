"""A fleet in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text


def fleet_panel(now: Mapping[str, Any]) -> RenderableType:
    """Round, errors, one line per client, and what is not running."""
    return Panel(Group(_heading(now), _clients(now), _processes(now)), title="Headwater fleet")


def _heading(now: Mapping[str, Any]) -> Text:
    last = f"/{now['rounds']}" if now["rounds"] else ""
    took = "" if now["seconds"] is None else f" ({now['seconds']:.1f} s)"
    tested = now["test"].get("round")
    after = f" after round {tested}" if tested else ""
    latest = _percent(now["prequential"].get("recent_metric"))
    return Text(
        f"round {now['round']}{last}{took}   latest samples {latest}   "
        f"test accuracy {_percent(now['test'].get('metric'))}{after}   strategy {now['strategy']}"
    )


def _clients(now: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("client")
    for name in ("arrived", "memory", "share", "latest samples", "last seen"):
        table.add_column(name, justify="right")
    for row in now["clients"]:
        table.add_row(
            row["name"] + (" (historical)" if row["historical"] else ""),
            _count(row["arrived"]),
            _count(row["held"]) + ("" if row["capacity"] is None else f"/{row['capacity']}"),
            "–" if row["share"] is None else f"{row['share']:.3f}",
            _percent(row.get("recent_metric")),
            Text(row["refused"], "red") if row["refused"] else _ago(row["seen"]),
        )
    return table


def _processes(now: Mapping[str, Any]) -> Text:
    rows = now["parts"]
    dead = [row["name"] for row in rows if not row["alive"]]
    restarts = [f"{row['name']} {row['restarts']}×" for row in rows if row["restarts"]]
    text = Text(f"{len(rows) - len(dead)} of {len(rows)} processes")
    if dead:
        text.append(f"   down: {', '.join(dead)}", "red")
    if restarts:
        text.append(f"   restarted: {', '.join(restarts)}", "yellow")
    return text


def _percent(part: float | None) -> str:
    return "–" if part is None else f"{100 * part:.1f} %"


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _ago(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.0f} s ago"
