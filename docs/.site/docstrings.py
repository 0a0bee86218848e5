"""Docstrings as the site shows them: doctests become code blocks, cross-references plain names."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:meth|func|class|mod|attr):`~?(?:[\w.]*\.)?(\w+)`")


class Docstrings(griffe.Extension):
    """Rewrites every docstring before it is rendered."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called once per module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = fenced(_ROLE.sub(r"`\1`", obj.docstring.value))


def fenced(text: str) -> str:
    """Put each doctest with its output into a code block.

    >>> fenced("Adds.\\n\\n>>> 1 + 1\\n2").split("\\n")
    ['Adds.', '', '```pycon', '>>> 1 + 1', '2', '```']
    """
    lines: list[str] = []
    inside = False
    for line in [*text.split("\n"), ""]:
        begins = line.lstrip().startswith(">>>")
        if begins and not inside:
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(f"{indent}```pycon")
            inside = True
        elif inside and not line.strip():
            lines.append(f"{indent}```")
            inside = False
        lines.append(line)
    return "\n".join(lines[:-1])
