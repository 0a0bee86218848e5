"""Things timed in turns: a machine that slows down meanwhile slows all of them down."""

import statistics
import time
from collections.abc import Callable, Mapping

Task = Callable[[], object]


def seconds(task: Task) -> float:
    """How long it takes."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def alternate(tasks: Mapping[str, Task], turns: int) -> dict[str, float]:
    """The median seconds of each task over so many turns, after one that is not counted.

    >>> found = alternate({"short": lambda: None, "long": lambda: sum(range(10_000))}, turns=5)
    >>> found["long"] > found["short"] > 0
    True
    """
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in range(turns + 1):
        for name, task in tasks.items():
            taken = seconds(task)
            if turn:
                times[name].append(taken)
    return {name: statistics.median(of) for name, of in times.items()}
