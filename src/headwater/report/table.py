"""The table of strategies."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from headwater.experiments.summary import Row


def strategies_table(rows: Sequence[Row], title: str) -> Table:
    """Strategies side by side; the best mean accuracy is set off."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("Strategy", no_wrap=True)
    for name in ("Accuracy %", "Averaged %", "Hist. share", "N_eff", "Noise", "Rate"):
        table.add_column(name, justify="right", no_wrap=True)
    best = max(row.accuracy.mean for row in rows)
    for row in rows:
        style = "bold green" if row.accuracy.mean == best else None
        table.add_row(
            row.strategy,
            str(row.accuracy),
            str(row.average_accuracy),
            f"{row.historical_share:.2f}",
            f"{row.effective_samples:.0f}",
            f"{row.variability:.3g}",
            f"{row.learning_rate:.3g}",
            style=style,
        )
    return table
