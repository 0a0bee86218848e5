"""What was measured, as plain data: the JSON file, and what tables and pictures are made from."""

import json
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.contenders import Kind
from benchmarks.harness.entries import Entry
from benchmarks.harness.jobs import from_settings
from benchmarks.harness.machine import Machine
from benchmarks.harness.workloads import Workload


@dataclass(frozen=True)
class Line:
    """One contender on one workload; times in seconds, memory in bytes.

    Attributes:
        median, low, high: of the rounds' times, low and high being the quartiles; rounds: how many.
        before, after: the limit's median before and after all others.
        startup: from the start of the process to the first model, less one round.
        memory: largest sum over the tree of processes during start, first round and warm-up.
        error: distance of the first round's model from the right one, in units of the round's move.
        failure: why there is nothing to report.
    """

    name: str
    title: str
    kind: str
    median: float | None
    low: float | None
    high: float | None
    rounds: int
    before: float | None
    after: float | None
    startup: float | None
    memory: int | None
    error: float | None
    versions: dict[str, str]
    failure: str | None


@dataclass(frozen=True)
class Result:
    """One workload."""

    workload: Workload
    lines: list[Line]

    def fastest(self, kind: Kind) -> Line | None:
        """The fastest contender of that kind that was measured."""
        measured = [
            line for line in self.lines if line.kind == kind.value and line.median is not None
        ]
        return min(measured, key=lambda line: line.median or 0.0, default=None)


@dataclass(frozen=True)
class Report:
    """One run of the benchmarks."""

    machine: Machine
    results: list[Result]

    def as_json(self) -> str:
        """All numbers, and for each workload who was fastest and by how much."""
        content: dict[str, Any] = {"machine": asdict(self.machine), "workloads": []}
        for result in self.results:
            content["workloads"].append({**asdict(result), "ratios": ratios(result)})
        return json.dumps(content, indent=1, ensure_ascii=False)

    def versions(self) -> dict[str, str]:
        """Packages of all contenders; several versions of one side by side."""
        found: dict[str, set[str]] = {}
        for result in self.results:
            for line in result.lines:
                for package, version in line.versions.items():
                    found.setdefault(package, set()).add(version)
        return {package: " and ".join(sorted(found[package])) for package in sorted(found)}


def ratios(result: Result) -> dict[str, float | str | None]:
    """Headwater against the fastest peer (above 1: ahead) and against the limit (below 1:
    ahead)."""
    ours, peer, limit = (result.fastest(kind) for kind in (Kind.OURS, Kind.PEER, Kind.LIMIT))
    steps = next((line for line in result.lines if line.name == "steps"), None)
    return {
        "fastest_peer": peer.title if peer else None,
        "times_faster_than_fastest_peer": quotient(peer, ours),
        "fastest_limit": limit.title if limit else None,
        "of_fastest_limit": quotient(ours, limit),
        "of_bare_steps": quotient(ours, steps),
    }


def quotient(over: Line | None, under: Line | None) -> float | None:
    """Ratio of two medians, where both were measured."""
    if over is None or under is None or over.median is None or under.median is None:
        return None
    return over.median / under.median


def behind(result: Result, times: float) -> dict[str, str]:
    """Peers that took over so many times as long as the fastest one, and why they are not asked."""
    fastest = result.fastest(Kind.PEER)
    found = {}
    for line in result.lines:
        ratio = quotient(line, fastest)
        if line.kind == Kind.PEER.value and ratio is not None and ratio > times:
            found[line.name] = (
                f"not asked: {ratio:.1f} times as long as the fastest peer on "
                f"{result.workload.title}"
            )
    return found


def line(entry: Entry) -> Line:
    """A contender's measurements, summed up."""
    failed = entry.failure is not None
    low, _, high = (None, None, None) if failed else quartiles(entry.seconds)
    return Line(
        name=entry.contender.name,
        title=entry.contender.title,
        kind=entry.contender.kind.value,
        median=None if failed else entry.median,
        low=low,
        high=high,
        rounds=len(entry.seconds),
        before=statistics.median(entry.before) if entry.before else None,
        after=statistics.median(entry.after) if entry.after else None,
        startup=None if failed else entry.startup,
        memory=None if failed else entry.memory,
        error=entry.error,
        versions=entry.versions,
        failure=entry.failure,
    )


def quartiles(seconds: list[float]) -> tuple[float, float, float]:
    """First quartile, median, third quartile; of a single value, that value.

    >>> quartiles([3.0, 1.0, 2.0, 4.0, 5.0])
    (2.0, 3.0, 4.0)
    >>> quartiles([2.5])
    (2.5, 2.5, 2.5)
    """
    if len(seconds) == 1:
        return seconds[0], seconds[0], seconds[0]
    first, second, third = statistics.quantiles(seconds, n=4, method="inclusive")
    return first, second, third


def load(path: Path) -> Report:
    """Read a report that was written as JSON."""
    content = json.loads(path.read_text())
    results = [
        Result(from_settings(item["workload"]), [Line(**values) for values in item["lines"]])
        for item in content["workloads"]
    ]
    return Report(Machine(**content["machine"]), results)
