"""The page itself: text, tables and data in one file that loads nothing from anywhere."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from headwater import __version__
from headwater.experiments.measure import Measure

_ABOUT_LEDGER = (
    "A line is a client, from the first round to the last. Point at it for numbers, click it for "
    "its own curves."
)
_FIRST_SEED = " Of several seeds it is the first."


@dataclass(frozen=True)
class Series:
    """A line of a picture.

    Attributes:
        name: What it is called.
        x: Rounds.
        y: Values; None where there is none.
        colour: The number of its colour.
        dash: Whether it is dashed.
        low: The lower edge of a band around it; empty if it has none.
        high: The band's upper edge.
    """

    name: str
    x: Sequence[int]
    y: Sequence[float | None]
    colour: int = 0
    dash: bool = False
    low: Sequence[float] = ()
    high: Sequence[float] = ()

    def plain(self) -> dict[str, Any]:
        """As the page's script takes it."""
        line = {"name": self.name, "x": list(self.x), "y": list(self.y), "colour": self.colour}
        band = {"low": list(self.low), "high": list(self.high)} if self.low else {}
        return {**line, "dash": self.dash, **band}


@dataclass(frozen=True)
class Page:
    """What a page says.

    Attributes:
        title: Its heading.
        subtitle: A line below.
        facts: A few numbers that matter, by their names.
        results: Tables, as HTML.
        charts: Metric -> the lines of its picture.
        about_charts: The pictures' heading.
        views: Line -> its view (:func:`headwater.learning.summary.summarise`).
        footer: Where it came from.
        seeds: Whether the views are those of the first of several seeds.
    """

    title: str
    subtitle: str
    facts: Mapping[str, str]
    results: str
    charts: Mapping[str, Sequence[Series]]
    about_charts: str
    views: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    footer: str = ""
    seeds: bool = False

    def html(self) -> str:
        """The whole page."""
        script = _resource("page.js")
        # Only this very script may run, whatever else might get into the page.
        digest = "sha256-" + b64encode(sha256(script.encode()).digest()).decode()
        parts = {
            "digest": digest,
            "title": escape(self.title),
            "subtitle": escape(self.subtitle),
            "tiles": "".join(map(_tile, self.facts.items())),
            "results": self.results,
            "footer": escape(f"{self.footer} Headwater {__version__}."),
            "data": in_script(self._data()),
            "script": script,
        }
        return _filled(_resource("page.html"), parts)

    def _data(self) -> dict[str, Any]:
        tested = (view["clients"].get("shown", ()) for view in self.views.values())
        names = dict.fromkeys([*self.charts, *(name for found in tested for name in found)])
        measures = {name: Measure.named(name) for name in names}
        return {
            "charts": [
                {
                    "title": measures[name].words,
                    "unit": "%" if measures[name].percent else "",
                    "series": [line.plain() for line in lines],
                }
                for name, lines in self.charts.items()
            ],
            "about_charts": self.about_charts,
            "about_ledger": _ABOUT_LEDGER + _FIRST_SEED * self.seeds,
            "words": {name: measure.words for name, measure in measures.items()},
            "units": {name: "%" if m.percent else "" for name, m in measures.items()},
            "ledgers": [
                {"name": name, **view["ledger"], "tested": view["clients"]}
                for name, view in self.views.items()
            ],
        }


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], best: int | None = None) -> str:
    """A table; everything in it is escaped, and one row may be set off.

    >>> html_table(["a"], [["<b>"]])
    '<div class="wide"><table><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr></table></div>'
    """
    heading = "".join(f"<th>{escape(word)}</th>" for word in head)
    body = "".join(_row(row, place == best) for place, row in enumerate(rows))
    return f'<div class="wide"><table><tr>{heading}</tr>{body}</table></div>'


def _row(cells: Sequence[str], best: bool) -> str:
    inside = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr class="best">{inside}</tr>' if best else f"<tr>{inside}</tr>"


def in_script(data: object) -> str:
    r"""JSON that cannot end the element it stands in, whatever a name contains.

    >>> in_script("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _tile(fact: tuple[str, str]) -> str:
    name, value = fact
    return f'<div class="tile"><span>{escape(name)}</span><b>{escape(value)}</b></div>'


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """The template with its places filled, each once: what is filled in is not looked at again."""
    pieces = template.split("{{")
    filled = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        filled += [parts[name], rest]
    return "".join(filled)


def _resource(name: str) -> str:
    return (files("headwater.report.pages") / name).read_text(encoding="utf-8")
