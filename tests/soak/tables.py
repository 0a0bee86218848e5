"""Tables and settings files of a user's own, with some of their bytes or cells exchanged."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from tempfile import mkdtemp

from tests.soak.inputs import WORDS
from tests.soak.trial import draws, run

from headwater.cli.node import EXAMPLE

CELLS = (
    *("", " ", "nan", "inf", "-1", "1e30", "1e300", "1e-320", "9" * 40, "1,5", '"', '"a', "\x00"),
    *("2026-01-01", "31.12.2026", "0000-00-00", "9999-12-31", "é", "\U0001f40c", "true", "null"),
    *("\ufeff", "\r", "\n", ";", "\t", "a b", "'", "=1+1"),
)
RUN = (
    *("run", "pumps.csv", "--client", "pump", "--time", "at", "--label", "state", "--rounds", "3"),
    *("--seeds", "1", "--learning-rate", "0.1", "--strategies", "uniform", "--cores", "1"),
    *("--out", "run", "--json"),
)


def trial(number: int) -> tuple[str, str]:
    """One table for ``headwater run`` or one file for ``headwater node --check``."""
    draw = draws("tables", number)
    arguments, name, content = draw.choice((_table, _table, _node))(draw)
    place = Path(mkdtemp(prefix="soak-"))
    (place / name).write_bytes(content)
    ended = run(arguments, place)
    if ended.verdict in ("fine", "clear error"):
        shutil.rmtree(place, ignore_errors=True)
    return ended.verdict, f"{' '.join(arguments[:3])} {content!r:.300}: {ended.err.strip()[-300:]}"


def _table(draw: random.Random) -> tuple[tuple[str, ...], str, bytes]:
    rows = [["pump", "at", "flow", "heat", "state"]]
    for k in range(40):
        moment = f"2026-01-{1 + k // 24:02} {k % 24:02}:00:00"
        flow, heat = f"{draw.gauss(0, 1):.3f}", f"{draw.gauss(20, 5):.1f}"
        rows.append([draw.choice("abcd"), moment, flow, heat, draw.choice(("fine", "worn"))])
    for _ in range(draw.choice((0, 1, 1, 2, 5))):
        draw.choice(rows)[draw.randrange(5)] = draw.choice((*CELLS, *WORDS))
    separator, end = draw.choice(",,,;\t|"), draw.choice(("\n", "\n", "\r\n", "\r"))
    text = end.join(separator.join(row) for row in rows) + draw.choice(("", end))
    content = bytearray(text.encode(draw.choice(("utf-8",) * 4 + ("utf-8-sig", "utf-16"))))
    if draw.random() < 0.2:
        del content[draw.randrange(len(content)) :]
    return RUN, "pumps.csv", bytes(content)


def _node(draw: random.Random) -> tuple[tuple[str, ...], str, bytes]:
    """The example with one or two of its values exchanged."""
    lines = EXAMPLE.replace('password_file = "password"', "").splitlines()
    for _ in range(draw.choice((1, 2))):
        at = draw.randrange(len(lines))
        name = lines[at].partition("=")[0].strip(" #") or "x"
        word = draw.choice((*CELLS, *WORDS))
        lines[at] = draw.choice((f"{name} = {word}", f'{name} = "{word}"', word, ""))
    content = "\n".join(lines).encode(errors="replace")
    return ("node", "NODE.toml", "--check"), "NODE.toml", content
