"""A ledger in a line, and as a table with a picture of who holds what when (for notebooks)."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from itertools import pairwise

import numpy as np

from headwater.ledger.holdings import Holdings
from headwater.ledger.ledger import Ledger
from headwater.ledger.overview import evenly
from headwater.randomness import Floats

_COLUMNS = 80  # rounds in the picture; of a longer run, some
_CLIENTS = 24  # clients in the picture; of more, some
_CELL = 6, 10  # pixels
_HISTORICAL, _FRESH = "#0072B2", "#D55E00"  # colour-blind eyes can tell them apart


def ledger_text(ledger: Ledger) -> str:
    """A ledger in a line.

    >>> from headwater import Constant, Fifo, Uniform
    >>> Ledger.of([8, 8], Constant(2), Fifo(2), Uniform(), rounds=4)
    Ledger(2 clients, 16 samples, 4 rounds, N_eff 16.0)
    """
    holdings = ledger.holdings
    return (
        f"Ledger({holdings.clients} clients, {len(holdings.enter)} samples, "
        f"{holdings.rounds} rounds, N_eff {ledger.effective_samples:.1f})"
    )


def ledger_html(ledger: Ledger) -> str:
    """The numbers of a ledger, and who holds what when."""
    holdings = ledger.holdings
    old = int(holdings.historical.sum())
    facts = {
        "clients": f"{holdings.clients}, of which {old} historical",
        "samples": f"{len(holdings.enter)}, of which {int(holdings.collected.sum())} are held",
        "rounds": holdings.rounds,
        "effective samples": f"{ledger.effective_samples:.1f}",
        "historical share": f"{ledger.historical_share:.3f}",
        "variability": f"{ledger.variability:.3g}",
    }
    return table_html("Ledger", facts) + holdings_picture(holdings)


def table_html(title: str, facts: Mapping[str, object]) -> str:
    """A small table with a title; everything in it is escaped.

    >>> table_html("A", {"b": "<c>"})
    '<b>A</b><table><tr><td>b</td><td>&lt;c&gt;</td></tr></table>'
    """
    rows = (
        f"<tr><td>{escape(name)}</td><td>{escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<b>{escape(title)}</b><table>{''.join(rows)}</table>"


def holdings_picture(holdings: Holdings) -> str:
    """Who holds how much when, as an inline SVG: a line per client, rounds from left to right."""
    rounds = evenly(1, holdings.rounds, _COLUMNS)
    clients = evenly(0, holdings.clients - 1, _CLIENTS)
    held = np.array([holdings.per_client(holdings.held(int(t)))[clients] for t in rounds]).T
    full = np.maximum(held.max(axis=1, keepdims=True), 1)
    bars = [
        _bars(line, place, client, holdings)
        for place, (client, line) in enumerate(zip(clients.tolist(), held / full, strict=True))
    ]
    width, height = _CELL[0] * len(rounds), _CELL[1] * len(clients)
    return (
        f'<svg width="{width}" height="{height}" role="img" '
        f'aria-label="memory of each client over the rounds">{"".join(bars)}</svg>'
        f"<div>How full each client's memory is, from round 1 to {holdings.rounds}; historical "
        f"clients are blue{_left_out(holdings, len(clients))}.</div>"
    )


def _bars(filled: Floats, place: int, client: int, holdings: Holdings) -> str:
    """A client's line: one rectangle for as long as nothing changes."""
    colour = _HISTORICAL if holdings.historical[client] else _FRESH
    edges = [0, *(np.flatnonzero(np.diff(filled)) + 1).tolist(), len(filled)]
    wide, high = _CELL
    return "".join(
        f'<rect x="{first * wide}" y="{place * high}" width="{(last - first) * wide}" '
        f'height="{high - 2}" fill="{colour}" fill-opacity="{filled[first]:.2f}">'
        f"<title>client {client}: {100 * filled[first]:.0f} %</title></rect>"
        for first, last in pairwise(edges)
        if filled[first] > 0
    )


def _left_out(holdings: Holdings, shown: int) -> str:
    return "" if shown == holdings.clients else f"; {shown} of {holdings.clients} clients"
