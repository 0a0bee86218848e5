"""Check that all contenders compute the same, then time their rounds in turns.

A turn is a handful of rounds of one contender while all others sleep. The limit of the machine is measured in
turns of its own before and after, so that a machine that changed its speed in between is seen.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from benchmarks import networks, reference, workloads
from benchmarks.contenders import Contender, Kind
from benchmarks.environments import Unavailable
from benchmarks.memory import Watch
from benchmarks.runner import Failure, Runner
from benchmarks.workloads import Workload

Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """How long to measure.

    Attributes:
        turns: of each contender. turn: seconds of rounds in a turn, at least one round.
        budget: seconds after which a slow contender takes no further turn (it has two at least).
        patience: seconds within which a contender must be ready, and must answer.
    """

    turns: int = 5
    turn: float = 1.0
    budget: float = 120.0
    patience: float = 600.0


@dataclass
class Entry:
    """One contender on one workload: what was seen of it, or why nothing was."""

    contender: Contender
    seconds: list[float] = field(default_factory=list)
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    error: float | None = None
    memory: int = 0
    first: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)
    failure: str | None = None
    runner: Runner | None = None

    @property
    def median(self) -> float:
        """Seconds a round."""
        return statistics.median(self.seconds)

    @property
    def startup(self) -> float:
        """Seconds from the start of the process to the first model, less one round."""
        return max(0.0, self.first - self.median)

    @property
    def drift(self) -> float:
        """How much longer the limit took after than before."""
        return statistics.median(self.after) / statistics.median(self.before)


def measure(workload: Workload, contenders: Iterable[Contender], settings: Settings, say: Say) -> list[Entry]:
    """All contenders that take the workload on, in the order given."""
    entries = [Entry(contender) for contender in contenders if contender.takes(workload)]
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as name:
        folder = Path(name)
        prepare(workload, folder)
        say(f"{workload.title}: the right answer …")
        right = reference.one_round(workloads.read(folder))
        try:
            for entry in entries:
                try:
                    admit(entry, folder, right, settings, say)
                except (Failure, Unavailable) as failure:
                    say(f"  {entry.contender.title}: {failure}")
                    entry.failure = str(failure)
                    dismiss(entry)
            take_turns(entries, settings, say)
        finally:
            for entry in entries:
                dismiss(entry)
    return entries


def prepare(workload: Workload, folder: Path) -> None:
    """Data and PyTorch's usual first weights, from a fixed seed."""
    torch.manual_seed(0)
    model = networks.NETWORKS[workload.network][0]()
    workloads.write(workload, [p.detach().numpy() for p in model.parameters()], folder)


def admit(entry: Entry, folder: Path, right: reference.Reference, settings: Settings, say: Say) -> None:
    """Start it, compare its first round with the right answer, warm it up, let it sleep."""
    say(f"  {entry.contender.title}: starting …")
    command = entry.contender.command(folder)
    saved = folder / f"{entry.contender.name}.npz"
    runner = Runner(command, entry.contender.variables, folder / f"{entry.contender.name}.log")
    entry.runner = runner
    with Watch(runner.process.pid) as watch:
        entry.versions = runner.versions(settings.patience)
        runner.rounds(1, settings.patience, saved)
        entry.first = time.perf_counter() - runner.started
        entry.seconds = runner.rounds(2, settings.patience)
    entry.memory = watch.peak
    runner.pause()
    entry.error = right.error(workloads.read_arrays(saved))
    saved.unlink()
    say(f"  {entry.contender.title}: off by {entry.error:.1e}, about {entry.median:.3g} s a round")
    if not entry.error <= reference.TOLERANCE:
        raise Failure(f"computes something else: off by {entry.error:.2g}, {reference.TOLERANCE} is allowed")


def take_turns(entries: list[Entry], settings: Settings, say: Say) -> None:
    """The limit before, everybody in turns, the limit after."""
    expected = {entry.contender.name: entry.seconds[-1] for entry in running(entries)}
    for entry in running(entries):
        entry.seconds = []
    limits = [entry for entry in entries if entry.contender.kind is Kind.LIMIT]
    say("  the limit before")
    for entry in running(limits):
        turn(entry, entry.before, expected[entry.contender.name], settings)
    for number in range(settings.turns):
        say(f"  turn {number + 1} of {settings.turns}")
        for entry in running(entries):
            if number < 2 or sum(entry.seconds) < settings.budget:
                turn(entry, entry.seconds, expected[entry.contender.name], settings)
    say("  the limit after")
    for entry in running(limits):
        turn(entry, entry.after, expected[entry.contender.name], settings)


def running(entries: list[Entry]) -> list[Entry]:
    """Those that have not failed."""
    return [entry for entry in entries if entry.runner is not None]


def turn(entry: Entry, seconds: list[float], expected: float, settings: Settings) -> None:
    """Wake one contender, time some rounds, let it sleep again; one that fails is sent home."""
    runner = entry.runner
    assert runner is not None
    number = max(1, min(1000, round(settings.turn / expected)))
    try:
        runner.resume()
        seconds.extend(runner.rounds(number, settings.patience))
        runner.pause()
    except Failure as failure:
        entry.failure = str(failure)
        dismiss(entry)


def dismiss(entry: Entry) -> None:
    """End its processes."""
    if entry.runner is not None:
        entry.runner.end()
        entry.runner = None
