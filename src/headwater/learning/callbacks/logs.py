"""Logs of a run: a CSV file, TensorBoard, MLflow."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

from headwater.errors import InputError
from headwater.files import replace
from headwater.learning.algorithm import Record
from headwater.learning.callbacks.callback import Beginning, Callback, Moment

_PLAIN = ("round", "learning_rate", "share", "clients", "samples", "move")


class CsvLog(Callback):
    """One line per round in a CSV file that any program can read while the run goes on.

    A run that goes on from a checkpoint writes the earlier rounds again: no line is missing, none
    is there twice.

    Args:
        path: of the file; it is replaced.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._columns: list[str] = []

    def begin(self, beginning: Beginning) -> None:
        """Write the heading and the rounds that are done."""
        metrics, arrivals = beginning.metrics, beginning.arrivals
        self._columns = [*_PLAIN, *metrics, *(f"worst_{name}" for name in metrics), "failed"]
        if arrivals:
            self._columns += ["arrived", *(f"prequential_{name}" for name in arrivals)]
        rows: list[list[Any]] = [self._columns, *map(self._row, beginning.history)]
        replace(self.path, "".join(_line(row) for row in rows).encode())

    def after_round(self, moment: Moment) -> None:
        """Append a line."""
        with open(self.path, "a", newline="") as file:
            file.write(_line(self._row(moment.record)))

    def _row(self, record: Record) -> list[Any]:
        values = record.flat()
        return [values.get(column, "") for column in self._columns]


class TensorBoardLog(Callback):
    """Scalars for TensorBoard: ``pip install tensorboard``, then ``tensorboard --logdir FOLDER``.

    Args:
        folder: where the event files go.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._writer: Any = None

    def begin(self, beginning: Beginning) -> None:
        """Open a file for the rounds to come."""
        module = _needed("torch.utils.tensorboard", "tensorboard", "TensorBoardLog")
        after = len(beginning.history) + 1
        self._writer = module.SummaryWriter(str(self.folder), purge_step=after)

    def after_round(self, moment: Moment) -> None:
        """Write a round's numbers."""
        for name, value in _numbers(moment.record).items():
            self._writer.add_scalar(name, value, moment.record.round)

    def end(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()


class MlflowLog(Callback):
    """Metrics of the active MLflow run: ``pip install mlflow-skinny`` (or mlflow).

    Example:
        >>> with mlflow.start_run():  # doctest: +SKIP
        ...     hw.simulate(model, clients, callbacks=[hw.MlflowLog()])
    """

    def __init__(self) -> None:
        self._mlflow: ModuleType | None = None

    def begin(self, beginning: Beginning) -> None:
        """Note the number of rounds."""
        self._mlflow = _needed("mlflow", "mlflow-skinny", "MlflowLog")
        self._mlflow.log_param("rounds", beginning.rounds)

    def after_round(self, moment: Moment) -> None:
        """Log a round's numbers."""
        assert self._mlflow is not None
        self._mlflow.log_metrics(_numbers(moment.record), step=moment.record.round)


def _numbers(record: Record) -> Mapping[str, float]:
    """A round's numbers by name, without the round itself."""
    return {name: float(v) for name, v in record.flat().items() if name != "round"}


def _line(row: list[Any]) -> str:
    buffer = StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(row)
    return buffer.getvalue()


def _needed(module: str, package: str, who: str) -> ModuleType:
    """A module of a package that is not installed with Headwater."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(f"{who}: pip install {package} ({error})") from error
