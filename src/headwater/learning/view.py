"""Clients, federations and runs in a line, and as small tables and pictures for notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from headwater.ledger.view import holdings_picture, table_html

if TYPE_CHECKING:
    from headwater.learning.algorithm import Record
    from headwater.learning.federation import Client, Federation
    from headwater.learning.run import Run

_SIZE = 320, 90  # pixels of a curve
_COLOUR = "#0072B2"


def client_text(client: Client) -> str:
    """A client in a line.

    >>> import headwater as hw
    >>> hw.Client(np.zeros((8, 2)), np.arange(8) % 2, hw.Constant(2), hw.Fifo(4))
    Client(8 samples (2,), labels int64, Constant(rate=2), Fifo(capacity=4))
    """
    return f"Client({', '.join(_client_facts(client).values())})"


def client_html(client: Client) -> str:
    """A client as a table."""
    return table_html("Client", _client_facts(client))


def _client_facts(client: Client) -> dict[str, str]:
    x, y = client.tensors
    facts = {
        "samples": f"{len(x)} samples {tuple(x.shape[1:])}",
        "labels": f"labels {str(y.dtype).removeprefix('torch.')}",
        "arrivals": repr(client.arrivals),
        "memory": repr(client.memory),
    }
    if client.test is not None:
        facts["test"] = f"{len(client.test[1])} test samples"  # type: ignore[arg-type]
    return facts


def federation_text(federation: Federation) -> str:
    """A federation in a line.

    >>> import headwater as hw
    >>> hw.Federation.of([hw.Client(np.zeros((8, 2)), np.arange(8) % 2)] * 3)
    Federation(3 clients, 24 samples (2,), labels int64, not tested)
    """
    return f"Federation({', '.join(_federation_facts(federation).values())})"


def federation_html(federation: Federation) -> str:
    """A federation as a table, with the kinds of its clients."""
    kinds = Counter(zip(map(repr, federation.arrivals), map(repr, federation.memory), strict=True))
    facts = _federation_facts(federation)
    for (arrivals, memory), count in kinds.most_common(8):
        facts[f"{arrivals}, {memory}"] = f"{count} clients"
    return table_html("Federation", facts)


def _federation_facts(federation: Federation) -> dict[str, str]:
    train, test = federation.train, federation.test
    facts = {
        "clients": f"{len(federation)} clients",
        "samples": f"{int(train.counts.sum())} samples {tuple(train.x.shape[1:])}",
        "labels": f"labels {str(train.y.dtype).removeprefix('torch.')}",
        "tests": "not tested",
    }
    if test is not None:
        common = len(test.counts) == 1 and len(federation) > 1
        kind = "common test samples" if common else "test samples"
        facts["tests"] = f"{int(test.counts.sum())} {kind}"
    return facts


def run_text(run: Run) -> str:
    """A run in a line: how long, how weighed, how good."""
    last = _last_test(run.history)
    words = [f"{run.state.round} rounds", repr(run.strategy)]
    if last is not None:
        words += [f"{name} {value:.4g}" for name, value in _values(last).items()]
    return f"Run({', '.join(words)})"


def run_html(run: Run) -> str:
    """A run as a table, the first metric over the rounds, and who held what when."""
    last = _last_test(run.history)
    facts: dict[str, object] = {"strategy": run.strategy, "rounds": run.state.round}
    facts["effective samples"] = f"{run.ledger.effective_samples:.1f}"
    for name, value in _values(last).items() if last else ():
        worst = last.worst.get(name) if last else None
        facts[name] = f"{value:.4g}" + ("" if worst is None else f" (worst tenth {worst:.4g})")
    return table_html("Run", facts) + _curve(run.history) + holdings_picture(run.ledger.holdings)


def _last_test(history: Sequence[Record]) -> Record | None:
    return next((record for record in reversed(history) if record.tested), None)


def _values(record: Record) -> dict[str, float]:
    return {"loss": record.value("loss"), **record.metrics}


def _curve(history: Sequence[Record]) -> str:
    """The first metric, or the loss, over the rounds: an inline SVG."""
    tested = [record for record in history if record.tested]
    if len(tested) < 2:
        return ""
    metric = next(iter(tested[0].metrics), "loss")
    values = np.array([record.value(metric) for record in tested])
    fine = np.isfinite(values)
    if fine.sum() < 2:
        return ""
    low, high = values[fine].min(), values[fine].max()
    x = np.array([record.round for record in tested])[fine] / tested[-1].round * _SIZE[0]
    y = _SIZE[1] * (1 - 0.9 * (values[fine] - low) / max(high - low, 1e-300)) - 4
    name = escape(metric)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return (
        f'<div>{name}, from {low:.4g} to {high:.4g}</div><svg width="{_SIZE[0]}" '
        f'height="{_SIZE[1]}" role="img" aria-label="{name} over the rounds"><polyline '
        f'points="{points}" fill="none" stroke="{_COLOUR}" stroke-width="2"/></svg>'
    )
