"""``python -m benchmarks.publish``: what ``make bench`` found, into ``docs/bench``.

Copies every result of a run and prints the tables that stand in README.md and docs/performance.md,
ready to be pasted.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

from benchmarks.harness import results, table
from benchmarks.pieces import PIECES, Outcome, verdict

PLACES = {
    "table": "README.md: How it is built; docs/performance.md: on top",
    "growth": "docs/performance.md: How cost grows",
    "planner": "docs/performance.md: The planner",
    "footprint": "docs/performance.md: Memory",
    "neighbour": "docs/performance.md: Threads and neighbours",
    "long_stream": "docs/performance.md: Streams that are too long to be written down",
    "flower_rounds": "docs/flower.md, docs/performance.md",
}
KINDS = (".md", ".json", ".png")


def copy(source: Path, target: Path) -> list[str]:
    """Put the results of a run there; their names."""
    target.mkdir(parents=True, exist_ok=True)
    files = sorted(path for path in source.iterdir() if path.suffix in KINDS)
    for path in files:
        shutil.copyfile(path, target / path.name)
    return [path.name for path in files]


def tables(folder: Path) -> str:
    """All tables of a run, under the places where they stand."""
    parts = []
    for piece in PIECES:
        parts.append(f"## {piece.name}: {PLACES[piece.name]}\n")
        parts.append(tables_of(piece.name, folder))
    return "\n".join(parts)


def tables_of(name: str, folder: Path) -> str:
    """Those of one piece; that it has none, if so."""
    printed = folder / f"{name}.md"
    if name == "table" and (folder / "results.json").exists():
        report = results.load(folder / "results.json")
        measured = f"Measured by {report.machine.words()}; {table.packages(report)}."
        return "\n\n".join([table.short(report), table.summary(report), measured, ""])
    return printed.read_text() if printed.exists() else "not measured in this run\n"


def failures(folder: Path) -> list[str]:
    """Pieces of the run that failed, in words."""
    path = folder / "pieces.json"
    stored = json.loads(path.read_text()) if path.exists() else []
    outcomes = [Outcome(**values) for values in stored]
    return [verdict(outcome) for outcome in outcomes if outcome.failure is not None]


def main(words: list[str]) -> None:
    """Copy, print, say what is missing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.publish", description=__doc__)
    parser.add_argument("--source", type=Path, default=Path("runs/bench"), help="folder of a run")
    parser.add_argument("--to", type=Path, default=Path("docs/bench"), help="where to put it")
    options = parser.parse_args(words)
    if not options.source.is_dir():
        parser.error(f"--source: there is no {options.source}; make bench writes it")
    names = copy(options.source, options.to)
    print(tables(options.to))
    print(f"written to {options.to}/: {', '.join(names)}", file=sys.stderr)
    for line in failures(options.source):
        print(line, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
