"""Every claim of the paper with the evidence for and against it, as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from headwater.experiments.paper.claims import CLAIMS, Finding
from headwater.experiments.table import Table


def findings(tables: Sequence[Table]) -> str:
    """Every claim with its evidence."""
    return "\n\n".join(
        _claim(str(claim.__doc__).splitlines()[0], claim(tables)) for claim in CLAIMS
    )


def _claim(title: str, found: Sequence[Finding]) -> str:
    if not found:
        return f"### {title}\n\nNot run yet."
    counts = Counter(finding.verdict for finding in found)
    total = ", ".join(f"{verdict}: {count}" for verdict, count in counts.items())
    rows = [f"| {f.where} | {f.verdict} | {f.evidence} |" for f in found]
    table = ["| where | verdict | numbers |", "|---|---|---|", *rows]
    return "\n".join([f"### {title}", "", f"{total}.", "", *table])
