"""``python -m benchmarks.studies.footprint``: memory and start-up against the least possible.

The least memory of a process tree: PyTorch once, the data one and a half times, and the model once
for each worker, for the caller, for θ and for θ̄. The least start-up: importing PyTorch and loading
the data. Memory is in bytes of the whole tree, a page shared by n processes counted as 1/n, and so
can be measured on a busy machine; seconds cannot.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import checks, jobs, machine, measure
from benchmarks.harness.contenders import CONTENDERS
from benchmarks.harness.entries import Entry, Settings
from benchmarks.harness.runner import ROOT, Failure, environment
from benchmarks.harness.table import number
from benchmarks.harness.workloads import WORKLOADS, Workload
from headwater.processes import cores

COMMAND = "python -m benchmarks.studies.footprint"
MB = 2**20
DATA = 1.5  # copies of the data, and
MODELS = 3  # of the model besides the workers', that are allowed
BARE = """
import json, os, sys
from pathlib import Path
import torch
from benchmarks.harness import jobs, memory
alone = memory.of_tree(os.getpid())
job = jobs.read(Path(sys.argv[1]))
print(json.dumps(alone))
"""


@dataclass(frozen=True)
class Found:
    """What a workload takes, and the least: bytes and seconds."""

    memory: int
    least_memory: float
    startup: float
    least_startup: float

    def row(self, title: str) -> str:
        """As a line of the table."""
        sizes = [f"{number(size / MB)} MB" for size in (self.memory, self.least_memory)]
        times = [f"{value:.1f} s" for value in (self.startup, self.least_startup)]
        ratios = (
            f"{self.memory / self.least_memory:.2f}×",
            f"{self.startup / self.least_startup:.2f}×",
        )
        return "| " + " | ".join([title, *sizes, ratios[0], *times, ratios[1]]) + " |"


def bare(folder: Path) -> tuple[int, float]:
    """Bytes of PyTorch alone; seconds until it is there and the data are loaded."""
    start = time.perf_counter()
    command = [sys.executable, "-c", BARE, str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=True
    )
    return int(json.loads(done.stdout)), time.perf_counter() - start


def compare(workload: Workload, turns: int) -> Found:
    """Headwater and the bare process in turns; the quickest start of each."""
    memory, startups, alone, loaded = 0, [], 0, []
    with tempfile.TemporaryDirectory(prefix="headwater-footprint-") as name:
        folder = Path(name)
        measure.prepare(workload, folder)
        job = jobs.read(folder)
        check = checks.check_of(job)
        for _ in range(turns):
            alone, took = bare(folder)
            loaded.append(took)
            entry = _run(workload, check, folder)
            startups.append(entry.startup)
            memory = max(memory, entry.memory)
    model = sum(w.nbytes for w in job.weights)
    least = alone + DATA * (job.x.nbytes + job.y.nbytes) + model * (cores() + MODELS)
    return Found(memory, least, min(startups), min(loaded))


def _run(workload: Workload, check: checks.Check, folder: Path) -> Entry:
    entry, settings = Entry(CONTENDERS[0], workload), Settings()
    try:
        entry.admit(check, folder, settings)
        if entry.failure is not None:
            raise Failure(entry.failure)
        entry.turn(entry.seconds, settings)
    finally:
        entry.dismiss()
    return entry


def main(words: list[str]) -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--only", default="digits,images-5", help="names of workloads")
    parser.add_argument("--turns", type=int, default=3, help="starts of each")
    options = parser.parse_args(words)
    print("| | memory | at least | | start-up | at least | |\n|---|--:|--:|--:|--:|--:|--:|")
    for workload in WORKLOADS:
        if workload.name in options.only.split(","):
            print(compare(workload, options.turns).row(workload.title), flush=True)
    print(f"\nMeasured by {machine.describe(' '.join([COMMAND, *words])).words()}.")


if __name__ == "__main__":
    main(sys.argv[1:])
