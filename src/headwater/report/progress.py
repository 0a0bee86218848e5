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

from headwater.experiments.cells import Cell, Result


class CellProgress:
    """Watches cells: call it with the rounds done by each cell and the cells just finished."""

    def __init__(self, what: str, rounds: int, cells: int) -> None:
        self._console = Console(stderr=True)
        self._what, self._rounds, self._cells, self._finished = what, rounds, cells, 0
        self._started, self._before = time.monotonic(), -1
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("rounds"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._live = (
            Progress(*columns, console=self._console) if self._console.is_terminal else None
        )
        self._bar = self._live.add_task(what, total=rounds * cells) if self._live else None

    def __enter__(self) -> CellProgress:
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

    def __call__(self, rounds: Sequence[int], finished: Sequence[tuple[Cell, Result]]) -> None:
        """Show where we are."""
        done = sum(rounds)
        if self._before < 0:  # the first call tells what an earlier run has left
            self._before, self._finished = done, sum(r == self._rounds for r in rounds)
        if self._live and self._bar is not None:
            self._live.update(self._bar, completed=done)
            return
        for cell, result in finished:
            self._finished += 1
            accuracy = "diverged" if result.diverged else f"accuracy {100 * result.accuracy:.1f} %"
            self._console.print(
                f"{self._what} {self._finished}/{self._cells}: {cell.label}, seed {cell.seed}, "
                f"learning rate {cell.learning_rate:.4g}: {accuracy}; {self._left(done)}",
                soft_wrap=True,
                highlight=False,
            )

    def _left(self, done: int) -> str:
        """The time that is left if the rounds to come take as long as those since the start."""
        passed, total = done - self._before, self._rounds * self._cells
        if done >= total:
            return "done"
        seconds = (time.monotonic() - self._started) * (total - done) / max(1, passed)
        return (
            f"about {seconds / 60:.0f} min left" if seconds >= 60 else f"about {seconds:.0f} s left"
        )
