"""``python -m benchmarks.pieces`` (``make bench``): everything that is measured, one after another.

Every piece is a command of its own and stores its result as soon as it has one, in the folder
given. A piece that fails, or takes longer than it may, is named at the end; the others are not held
up by it. Nothing else may compute meanwhile.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
GRACE = 30.0  # seconds to end in an orderly way


@dataclass(frozen=True)
class Piece:
    """One command.

    Attributes:
        name: of the file with what it prints.
        module: what is run, below ``benchmarks``; "" for the comparison with the peers itself.
        words: of its command line.
        minutes: after which it is ended.
        stores: whether it takes ``--out``, for the files that it writes besides.
    """

    name: str
    module: str
    words: tuple[str, ...]
    minutes: float
    stores: bool = False

    def command(self, folder: Path) -> list[str]:
        """The command line."""
        module = f"benchmarks.{self.module}" if self.module else "benchmarks"
        out = ["--out", str(folder)] if self.stores else []
        return [sys.executable, "-m", module, *self.words, *out]


PIECES = (
    Piece("table", "", (), 35, stores=True),
    Piece("growth", "studies.growth", ("--turn", "0.2"), 12, stores=True),
    Piece("planner", "studies.planner", ("--limit", "20"), 5),
    Piece("footprint", "studies.footprint", ("--turns", "2"), 4),
    Piece("neighbour", "studies.neighbour", ("--turns", "3"), 3),
    Piece("long_stream", "studies.long_stream", ("--samples", "20000000"), 4),
    Piece("flower_rounds", "studies.flower_rounds", ("--rounds", "5", "--turns", "1"), 5),
)


@dataclass(frozen=True)
class Outcome:
    """How long a piece took, and why it failed if it did."""

    name: str
    seconds: float
    failure: str | None


def run(piece: Piece, folder: Path) -> Outcome:
    """One piece to its end; what it prints goes to a file, what it says meanwhile to the screen."""
    started = time.perf_counter()
    unfinished = folder / f"{piece.name}.unfinished"
    with unfinished.open("w") as output:
        process = subprocess.Popen(
            piece.command(folder), cwd=ROOT, stdout=output, start_new_session=True
        )
        failure = wait(process, piece.minutes)
    if failure is None:
        unfinished.replace(folder / f"{piece.name}.md")
    return Outcome(piece.name, time.perf_counter() - started, failure)


def wait(process: subprocess.Popen[bytes], minutes: float) -> str | None:
    """Wait for the end of a command; why it was not a good one, if so."""
    try:
        code = process.wait(60 * minutes)
    except subprocess.TimeoutExpired:
        end(process)
        return f"not done after {minutes:g} minutes"
    except BaseException:  # Ctrl-C does not reach it by itself, being in a session of its own
        end(process)
        raise
    return None if code == 0 else f"ended with code {code}"


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask the command to end, and after a while end it with all that it started."""
    process.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def verdict(outcome: Outcome) -> str:
    """One line for people.

    >>> verdict(Outcome("planner", 61.4, None))
    'planner: 1.0 minutes'
    >>> verdict(Outcome("growth", 3.0, "ended with code 1"))
    'growth: FAILED after 0.1 minutes: ended with code 1'
    """
    minutes = f"{outcome.seconds / 60:.1f} minutes"
    if outcome.failure is None:
        return f"{outcome.name}: {minutes}"
    return f"{outcome.name}: FAILED after {minutes}: {outcome.failure}"


def run_all(pieces: list[Piece], folder: Path) -> list[Outcome]:
    """All pieces; how each ended is stored with the results, after every one."""
    folder.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    for piece in pieces:
        print(f"{piece.name}: {' '.join(piece.command(folder)[1:])}", file=sys.stderr, flush=True)
        outcomes.append(run(piece, folder))
        stored = json.dumps([asdict(outcome) for outcome in outcomes], indent=1)
        (folder / "pieces.json").write_text(stored)
        print(verdict(outcomes[-1]), file=sys.stderr, flush=True)
    return outcomes


def main(words: list[str]) -> None:
    """The whole command; ends with code 1 if any piece failed."""
    names = [piece.name for piece in PIECES]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pieces", description=__doc__)
    parser.add_argument("--only", default=",".join(names), help=f"some of {','.join(names)}")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="folder of results")
    options = parser.parse_args(words)
    asked = options.only.split(",")
    for name in asked:
        if name not in names:
            parser.error(f"--only: there is no {name!r}; there are {', '.join(names)}")
    folder = options.out.resolve()
    outcomes = run_all([piece for piece in PIECES if piece.name in asked], folder)
    for outcome in outcomes:
        print(verdict(outcome))
    total = sum(outcome.seconds for outcome in outcomes) / 60
    print(f"{total:.0f} minutes in all; python -m benchmarks.publish puts it into docs/bench")
    sys.exit(any(outcome.failure is not None for outcome in outcomes))


if __name__ == "__main__":
    main(sys.argv[1:])
