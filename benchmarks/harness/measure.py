"""Check that all contenders compute the same, then time their rounds in turns.

A turn is a handful of rounds of one contender while all others sleep. The limit of the machine is
measured in turns of its own before and after, so that a machine that changed its speed in between
is seen. Everybody takes a few turns; the rest is for those that decide a ratio: ours, the fastest
peers and the fastest limits.
"""

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

from benchmarks.harness import checks, jobs, networks
from benchmarks.harness.contenders import Contender, Kind
from benchmarks.harness.entries import Entry, Settings
from benchmarks.harness.workloads import Workload

Say = Callable[[str], None]


def measure(
    workload: Workload, contenders: Iterable[Contender], settings: Settings, say: Say
) -> list[Entry]:
    """All contenders that take the workload on, in the order given."""
    say(workload.title)
    entries = [Entry(contender, workload) for contender in contenders if contender.takes(workload)]
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as name:
        folder = Path(name)
        prepare(workload, folder)
        check = checks.check_of(jobs.read(folder))
        try:
            for entry in entries:
                say(f"  {entry.contender.title}: starting …")
                entry.admit(check, folder, settings)
                say(f"  {entry.contender.title}: {verdict(entry)}")
            take_turns(entries, settings, say)
        finally:
            for entry in entries:
                entry.dismiss()
    return entries


def prepare(workload: Workload, folder: Path) -> None:
    """Data and PyTorch's usual first weights, from a fixed seed."""
    torch.manual_seed(0)
    model = networks.NETWORKS[workload.network][0]()
    jobs.write(workload, [p.detach().numpy() for p in model.parameters()], folder)


def verdict(entry: Entry) -> str:
    """What came of the comparison, in words."""
    if entry.failure is not None:
        return f"out: {entry.failure}"
    return (
        "ready, nothing to compare"
        if entry.error is None
        else f"computes the same, off by {entry.error:.1e}"
    )


def take_turns(entries: list[Entry], settings: Settings, say: Say) -> None:
    """The limit before, everybody in turns, the limit after."""
    limits = [entry for entry in entries if entry.contender.kind is Kind.LIMIT]
    for entry in running(limits):
        entry.turn(entry.before, settings)
    for number in range(settings.turns):
        say(f"  turn {number + 1} of {settings.turns}")
        for entry in running(entries):
            if number == 0 or due(entry, running(entries), number, settings):
                entry.turn(entry.seconds, settings)
    for entry in running(limits):
        entry.turn(entry.after, settings)


def due(entry: Entry, entries: list[Entry], turn: int, settings: Settings) -> bool:
    """Whether a contender that has had a turn takes another one."""
    if sum(entry.seconds) >= settings.budget:
        return False
    kind = entry.contender.kind
    fastest = min(other.median for other in entries if other.contender.kind is kind)
    return turn < settings.few or entry.median <= settings.close * fastest


def running(entries: list[Entry]) -> list[Entry]:
    """Those that have not failed."""
    return [entry for entry in entries if entry.runner is not None]
