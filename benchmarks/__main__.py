"""``python -m benchmarks``: Headwater against its peers and against the machine."""

import argparse
import signal
import sys
from pathlib import Path

from benchmarks.harness import machine, measure, picture, results, table
from benchmarks.harness.contenders import CONTENDERS, Contender, Kind
from benchmarks.harness.entries import Entry, Settings
from benchmarks.harness.workloads import WORKLOADS, Workload

FAR = 2.5
"""Times as long as the fastest peer; who takes longer is not asked for much larger workloads."""


def arguments(words: list[str]) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [workload.name for workload in WORKLOADS]
    peers = [contender.name for contender in CONTENDERS if contender.kind is Kind.PEER]
    parser.add_argument(
        "--only", metavar="WORKLOADS", default=",".join(names), help=f"some of {','.join(names)}"
    )
    parser.add_argument(
        "--peers",
        metavar="PEERS",
        default=",".join(peers),
        help=f"some of {','.join(peers)}, or none",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="few clients and rounds: shows that it works, not how fast",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("runs/bench"),
        help="folder of results.json, table.md, bench.png",
    )
    options = parser.parse_args(words)
    options.only = chosen(parser, "--only", options.only, names)
    options.peers = chosen(parser, "--peers", options.peers.removeprefix("none"), peers)
    return options


def chosen(
    parser: argparse.ArgumentParser, option: str, text: str, allowed: list[str]
) -> list[str]:
    """The names in a comma-separated list; an unknown one ends the program with the list of those
    that exist."""
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in allowed:
            parser.error(f"{option}: there is no {name!r}; there are {', '.join(allowed)}")
    return names


def run(
    workloads: list[Workload],
    contenders: list[Contender],
    settings: Settings,
    command: str,
    folder: Path,
) -> results.Report:
    """Measure one workload after the other, telling on standard error what is going on.

    The report so far is written after every workload, so that a run that is stopped has not been
    for nothing.
    """

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    report = results.Report(machine.describe(command), [])
    for workload in workloads:
        unasked = left_out(workload, report)
        asked = [contender for contender in contenders if contender.name not in unasked]
        entries = measure.measure(workload, asked, settings, say)
        entries += [
            Entry(c, workload, failure=unasked[c.name]) for c in contenders if c not in asked
        ]
        report.results.append(results.Result(workload, [results.line(entry) for entry in entries]))
        write(report, folder)
    return report


def left_out(workload: Workload, report: results.Report) -> dict[str, str]:
    """Peers that are not asked, and why: they were far behind on the smaller workload."""
    before = [result for result in report.results if result.workload.name == workload.after]
    return results.behind(before[0], FAR) if before else {}


def write(report: results.Report, folder: Path) -> None:
    """The report for programs, for readers and for the eye."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(report.as_json())
    (folder / "table.md").write_text(table.markdown(report))
    picture.draw(report, folder / "bench.png")


def main(words: list[str]) -> None:
    """The whole command."""
    options = arguments(words)
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit("ended")
    )  # as on Ctrl-C: sleeping contenders are ended too
    workloads = [workload for workload in WORKLOADS if workload.name in options.only]
    contenders = [c for c in CONTENDERS if c.kind is not Kind.PEER or c.name in options.peers]
    settings = Settings()
    if options.quick:
        workloads = [workload.quick() for workload in workloads]
        settings = Settings(turns=2, turn=0.1, budget=10.0, patience=180.0)
    report = run(
        workloads, contenders, settings, " ".join(["python -m benchmarks", *words]), options.out
    )
    print(report.as_json() if options.json else table.markdown(report))
    print(f"written to {options.out}/", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
