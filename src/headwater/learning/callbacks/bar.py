"""A bar on the terminal: how far a run is, how good, and how long it will take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.learning.callbacks.callback import Beginning, Callback, Moment

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ProgressBar(Callback):
    """Rounds done and left, and the last test; what ``simulate(progress=True)`` shows."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._name = ""

    def begin(self, beginning: Beginning) -> None:
        """Show the bar."""
        # Loaded here: most runs show no bar, and all would wait for it.
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        # Of the metrics, the first says most; without one, the loss.
        self._name = (*beginning.metrics[1:], *beginning.metrics)[0]
        columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[last]}")
        done = TextColumn("round {task.completed}/{task.total}")
        self._progress = Progress(*columns, done, TimeRemainingColumn())
        self._task = self._progress.add_task(
            "learning", total=beginning.rounds, completed=len(beginning.history), last=""
        )
        self._progress.start()

    def after_round(self, moment: Moment) -> None:
        """Move it on."""
        assert self._progress is not None
        assert self._task is not None
        record = moment.record
        last = {"last": f"{self._name} {record.value(self._name):.4g}"} if record.tested else {}
        self._progress.update(self._task, completed=record.round, **last)  # type: ignore[arg-type]

    def end(self) -> None:
        """Leave it as it is."""
        if self._progress is not None:
            self._progress.stop()
