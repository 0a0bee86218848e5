"""``python -m benchmarks.studies.neighbour``: what a busy neighbour costs.

Turns of rounds in quiet, and turns beside a process that does nothing but use a core, one after the
other; the ratio of their medians. With one neighbour on C cores, C − ½ cores are left on average,
and a process that shares its core gets half of it: 2× is what a round may take. Run it on a machine
that is otherwise idle.
"""

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.harness import machine
from benchmarks.harness.runner import Runner
from benchmarks.harness.table import seconds
from benchmarks.studies.growth_points import Point

COMMAND = "python -m benchmarks.studies.neighbour"
PATIENCE = 600.0
WORK = {
    "logistic regression, 50 clients, E = 1": Point(50, 20),
    "logistic regression, 10,000 clients, E = 1": Point(10_000, 20),
    "logistic regression, 100,000 clients, E = 1": Point(100_000, 20),
    "logistic regression, 1,000 clients, E = 5": Point(1_000, 20, batch=4, steps=5),
    "20–4096–1, 20 clients, E = 5": Point(20, 32, hidden=4_096, batch=32, steps=5),
    "20–65536–1, 20 clients, E = 5": Point(20, 32, hidden=65_536, batch=32, steps=5),
}


class Neighbour:
    """A process that uses a core, when it is told to."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        self.rest()

    def rest(self) -> None:
        """Be quiet."""
        self._process.send_signal(signal.SIGSTOP)

    def work(self) -> None:
        """Use a core."""
        self._process.send_signal(signal.SIGCONT)

    def leave(self) -> None:
        """End."""
        self._process.kill()
        self._process.wait()


def compare(point: Point, turns: int, turn: float, log: Path) -> tuple[float, float]:
    """Median seconds of a round in quiet, and beside the neighbour."""
    command = [sys.executable, "-m", "benchmarks.studies.growth_runner", json.dumps(asdict(point))]
    runner, neighbour = Runner(command, {}, log), Neighbour()
    quiet: list[float] = []
    busy: list[float] = []
    try:
        runner.versions(PATIENCE)
        expected = statistics.median(runner.rounds(5, PATIENCE))
        most = (point.rounds - 10) // (2 * turns)  # the run must not end before the last turn
        rounds = max(2, min(most, round(turn / expected)))
        for _ in range(turns):
            quiet += runner.rounds(rounds, PATIENCE)
            neighbour.work()
            busy += runner.rounds(rounds, PATIENCE)
            neighbour.rest()
    finally:
        neighbour.leave()
        runner.end()
    return statistics.median(quiet), statistics.median(busy)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--turns", type=int, default=5, help="of each kind")
    parser.add_argument("--turn", type=float, default=1.0, help="seconds of rounds in a turn")
    options = parser.parse_args()
    print("| a round of | in quiet | beside a busy neighbour | ratio |")
    print("|---|--:|--:|--:|")
    with tempfile.TemporaryDirectory(prefix="headwater-neighbour-") as folder:
        for name, point in WORK.items():
            quiet, busy = compare(point, options.turns, options.turn, Path(folder) / "log")
            cells = name, seconds(quiet), seconds(busy), f"{busy / quiet:.2f}×"
            print("| " + " | ".join(cells) + " |", flush=True)
    words = f"{COMMAND} --turns {options.turns} --turn {options.turn:g}"
    print(f"\nMeasured by {machine.describe(words).words()}.")


if __name__ == "__main__":
    main()
