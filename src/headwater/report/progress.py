"""How far a command is: a live bar on a terminal, plain lines in a pipe."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from headwater.experiments.measure import Measure
from headwater.experiments.over_seeds import Interval
from headwater.experiments.training_run import Outcome, TrainingRun

_COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TextColumn("rounds"),
    TimeElapsedColumn(),
    TimeRemainingColumn(),
)


class RunProgress:
    """Watches training runs: called with the rounds done by each and the ones just finished."""

    def __init__(self, what: str, runs: Sequence[TrainingRun]) -> None:
        self._what, self._runs, self._finished = what, runs, 0
        self._total = sum(run.rounds for run in runs)
        self._started = time.monotonic()
        self._console = Console(stderr=True)
        live = self._console.is_terminal and len(runs) > 0
        self._live = Progress(*_COLUMNS, console=self._console) if live else None
        self._bar = self._live.add_task(what, total=self._total) if self._live else None

    def __enter__(self) -> RunProgress:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()

    def __call__(self, rounds: Sequence[int], finished: Sequence[tuple[int, Outcome]]) -> None:
        """Show where we are."""
        if self._live and self._bar is not None:
            self._live.update(self._bar, completed=sum(rounds))
            return
        for place, outcome in finished:
            self._finished += 1
            measure = Measure.named(outcome.measure)
            # Late tests have less noise than the last one, and decide which rate is taken.
            late = measure.show(Interval(outcome.late_score, None))
            score = f"late tests' {measure.name} {late}{measure.unit}"
            self._console.print(
                f"{self._what} {self._finished}/{len(self._runs)}: {self._runs[place]}: "
                f"{'diverged' if outcome.diverged else score}; {self._left(sum(rounds))}",
                soft_wrap=True,
                highlight=False,
                markup=False,
            )

    def _left(self, done: int) -> str:
        """The time that is left if the rounds to come take as long as those since the start."""
        if self._finished == len(self._runs):
            return "done"
        seconds = (time.monotonic() - self._started) * (self._total - done) / max(1, done)
        minutes = f"about {seconds / 60:.0f} min left"
        return minutes if seconds >= 60 else f"about {seconds:.0f} s left"
