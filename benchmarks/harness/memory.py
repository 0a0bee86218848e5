"""Memory of a tree of processes, from /proc: every page counted once, shared ones in shares."""

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

PROC = Path("/proc")


def tree(root: int) -> list[int]:
    """A process and all its descendants that are alive."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (parent := parent_of(int(entry.name))) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:  # grows while it is walked
        found.extend(children.get(pid, []))
    return found


def parent_of(pid: int) -> int | None:
    """Parent's id; None when the process has gone."""
    fields = status(pid)
    return int(fields[1]) if fields else None


def born(pid: int) -> str | None:
    """When the process started, in ticks: tells it from a later one with the same id. None when it
    has gone."""
    fields = status(pid)
    return fields[19] if fields else None


def status(pid: int) -> list[str]:
    """Fields of /proc/PID/stat after the name, which stands in parentheses and may hold
    anything."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def proportional(pid: int) -> int:
    """Bytes of a process, a page shared by n processes counted as 1/n; 0 when it has gone."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024


def of_tree(root: int) -> int:
    """Bytes of a process and all its descendants."""
    return sum(proportional(pid) for pid in tree(root))


class Watch:
    """Samples the memory of a tree of processes while the block runs; ``peak`` holds the largest
    sum seen."""

    def __init__(self, root: int, interval: float = 0.1) -> None:
        self.root, self.interval = root, interval
        self.peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def _sample(self) -> None:
        while True:
            self.peak = max(self.peak, of_tree(self.root))
            if self._over.wait(self.interval):
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self.peak = max(self.peak, of_tree(self.root))
