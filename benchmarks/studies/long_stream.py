"""``python -m benchmarks.studies.long_stream``: a stream of 10^8 samples, in little memory.

Features and labels lie in files that are mapped, not read; the rounds come from a
:class:`headwater.ledger.flow.Flow`, which numbers samples as they arrive and forgets those that are
gone. Two things are to be seen: the memory that the process has to keep (pages of the files come
and go as the system likes) and the seconds of a round stay what they are, from the first to the
last. The processor's seconds stand beside the clock's, which busy neighbours make longer.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import headwater as hw
from benchmarks.harness import machine
from benchmarks.harness.table import number, seconds
from headwater.learning.algorithm import State, learn
from headwater.learning.engines import choose
from headwater.learning.problem import Problem
from headwater.ledger.flow import Flow
from headwater.ledger.orders import LocalWork
from headwater.ledger.strategies import Strategy

COMMAND = "python -m benchmarks.studies.long_stream"
CLIENTS = 50
FEATURES = 4
ARRIVING = 4
CAPACITY = 16
BATCH = 8
STRATEGIES: dict[str, Strategy] = {"memory": hw.ByMemory(), "uniform": hw.Uniform()}
_PIECE = 1 << 20  # samples that are written together
_STRETCHES = 10  # of a run, each with its own line in the table


@dataclass(frozen=True)
class Stretch:
    """Some rounds of a run.

    Attributes:
        last: the last of them.
        seconds: of a round, in the median.
        processor: seconds in which the processor worked for a round, in the mean.
        own: bytes that the process had to keep at its end.
        mapped: bytes of files that happened to be in memory at its end.
    """

    last: int
    seconds: float
    processor: float
    own: int
    mapped: int


def write(folder: Path, samples: int) -> hw.Part:
    """Random features and the labels that follow from them, in two files."""
    random = np.random.default_rng(0)
    x = np.memmap(folder / "x", np.float32, "w+", shape=(samples, FEATURES))
    y = np.memmap(folder / "y", np.int64, "w+", shape=(samples,))
    for first in range(0, samples, _PIECE):
        piece = slice(first, first + _PIECE)
        x[piece] = random.standard_normal(x[piece].shape, dtype=np.float32)
        y[piece] = x[piece].sum(1) > 0
    # Opened again: pages that were written belong to the process until they are on disk.
    x.flush()
    y.flush()
    edges = np.arange(CLIENTS + 1) * (samples // CLIENTS)
    return hw.Part(
        _opened(folder / "x", np.float32, FEATURES), _opened(folder / "y", np.int64), edges
    )


def _opened(path: Path, kind: type, width: int | None = None) -> torch.Tensor:
    # "c": the file is never written to. PyTorch takes no arrays that cannot be written at all.
    found = np.memmap(path, kind, "c")
    return torch.from_numpy(found if width is None else found.reshape(-1, width))


def memory() -> tuple[int, int]:
    """Bytes of this process that are its own, and those of files that are mapped."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Rss")}
    return int(found["RssAnon"]) * 1024, int(found["RssFile"]) * 1024


def walk(part: hw.Part, rounds: int, strategy: Strategy | None = None) -> list[Stretch]:
    """Learn from the first round to the last."""
    rules = hw.Constant(ARRIVING), hw.Fifo(CAPACITY)
    flow = Flow(part.counts, *rules, rounds, strategy=strategy or hw.ByMemory())
    work = LocalWork(1, BATCH)
    torch.manual_seed(0)
    problem = Problem.of(torch.nn.Linear(FEATURES, 1), part)
    stretches, times, before, worked = [], [], time.perf_counter(), time.process_time()
    with closing(choose(problem, work.orders(next(flow.rounds())), workers=0)) as engine:
        for state, _ in learn(State.start(problem.initial()), flow, work, engine, [0.1] * rounds):
            now = time.perf_counter()
            times.append(now - before)
            before = now
            if state.round % max(1, rounds // _STRETCHES) == 0:
                each = (time.process_time() - worked) / len(times)
                stretches.append(Stretch(state.round, statistics.median(times), each, *memory()))
                print(stretches[-1], file=sys.stderr, flush=True)
                times, before, worked = [], time.perf_counter(), time.process_time()
    return stretches


def slope(stretches: list[Stretch]) -> float:
    """Of the processor's seconds of a round against the rounds before it, on log paper."""
    x = np.log([s.last for s in stretches])
    return float(np.polyfit(x, np.log([s.processor for s in stretches]), 1)[0])


def main(words: list[str]) -> None:
    """Write the samples, walk, print a table."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--samples", type=int, default=10**8, help="of all clients together")
    parser.add_argument(
        "--strategy", choices=list(STRATEGIES), default="memory", help="how much samples count"
    )
    parser.add_argument("--folder", type=Path, help="where the files are written and deleted")
    options = parser.parse_args(words)
    rounds = options.samples // CLIENTS // ARRIVING
    with tempfile.TemporaryDirectory(prefix="headwater-stream-", dir=options.folder) as folder:
        part = write(Path(folder), options.samples)
        start = memory()[0]
        stretches = walk(part, rounds, STRATEGIES[options.strategy])
    print("| up to round | samples so far | a round | processor | own memory | of the files |")
    print("|--:|--:|--:|--:|--:|--:|")
    for s in stretches:
        counts = f"{s.last:,}", f"{s.last * CLIENTS * ARRIVING:,}"
        times = seconds(s.seconds), seconds(s.processor)
        sizes = (f"{number(size / 2**20)} MB" for size in (s.own, s.mapped))
        print("| " + " | ".join([*counts, *times, *sizes]) + " |")
    grown = (stretches[-1].own - start) / 2**20
    print(f"\nSlope {slope(stretches):.2f}; {number(grown)} MB more than before the first round.")
    print(f"Load of the machine at the end: {os.getloadavg()[2]:.1f}, this process included.")
    print(f"Measured by {machine.describe(' '.join([COMMAND, *words])).words()}.")


if __name__ == "__main__":
    main(sys.argv[1:])
