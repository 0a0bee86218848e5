"""The page of one run that was saved with ``run.save(folder)``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwater.experiments.measure import Measure
from headwater.experiments.over_seeds import Interval
from headwater.learning.run_folder import load_run
from headwater.learning.summary import summarise
from headwater.report.pages.page import Page, Series, html_table


def run_page(folder: Path) -> Page:
    """Read the run and lay it out."""
    view = summarise(load_run(folder))
    ledger = view["ledger"]
    return Page(
        folder.resolve().name,
        f"{view['strategy']}, {view['rounds']:,} rounds",
        {
            "Clients": f"{ledger['clients']:,}",
            "of which historical": f"{ledger['historical_clients']:,}",
            "Samples held": f"{ledger['samples']:,}",
            "Effective samples": f"{ledger['effective_samples']:,.0f}",
            "Historical share": f"{100 * ledger['historical_share']:.1f} %",
            "Noise": f"{ledger['variability']:.3g}",
        },
        _scores(view),
        {name: _lines(view, name) for name in _names(view)},
        "Over the rounds",
        {"run": view},
        f"From {folder}.",
    )


def _names(view: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys([*view["tests"]["mean"], *view["arrivals"]["mean"]]))


def _scores(view: dict[str, Any]) -> str:
    """Loss and metrics of the last test, and of samples as they arrived."""
    names = _names(view)
    if not names:
        return ""
    rows = []
    for name in names:
        tests = view["tests"]
        mean, worst = (tests[kind].get(name, [None])[-1] for kind in ("mean", "worst"))
        found = (mean, worst, view["prequential"].get(name))
        rows.append([Measure.named(name).words, *(_shown(name, value) for value in found)])
    head = ["Last test", "Mean over clients", "Worst tenth", "As samples arrived"]
    return "<h2>Scores</h2>" + html_table(head, rows)


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    measure = Measure.named(name)
    return measure.show(Interval(value, None)) + measure.unit


def _lines(view: dict[str, Any], name: str) -> list[Series]:
    tests, arrivals = view["tests"], view["arrivals"]
    kinds = {
        "mean of the tests": (tests["round"], tests["mean"], 0, False),
        "worst tenth of the clients": (tests["round"], tests["worst"], 0, True),
        "samples as they arrived": (arrivals["round"], arrivals["mean"], 1, False),
    }
    return [
        Series(words, rounds, values[name], colour, dash)
        for words, (rounds, values, colour, dash) in kinds.items()
        if name in values
    ]
