"""Recorded samples: a CSV file, its rows mapped; and their replay by rounds."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwater.devices.intake.intake import join
from headwater.devices.intake.mapping import Message, Record, SampleMapping
from headwater.devices.memory import Batch
from headwater.devices.settings.samples import SampleSettings
from headwater.devices.settings.sources import CsvSettings
from headwater.errors import InputError
from headwater.ledger.samples import Samples


def csv_rows(path: Path, skip: int = 0) -> Iterator[Record]:
    """The rows of a CSV file as records, by the names in its first line."""
    with _reader(path) as reader:
        for number, row in enumerate(reader):
            if number >= skip:
                yield row


def csv_header(path: Path) -> Sequence[str]:
    """The names in a CSV file's first line; none if it is empty."""
    with _reader(path) as reader:
        return reader.fieldnames or ()


@contextmanager
def _reader(path: Path) -> Iterator[csv.DictReader[str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            yield csv.DictReader(file)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; a CSV file is needed here") from error
    except csv.Error as error:
        raise InputError(f"{path}: {error}") from error


def check_header(path: Path, samples: SampleSettings) -> None:
    """Refuse a file whose first line does not name the fields: no row of it could be used."""
    if samples.late_labels:
        return  # rows may have one half of a sample each
    names = csv_header(path)
    missing = [name for name in (*samples.fields, samples.label) if name not in names]
    if missing:
        raise InputError(
            f"{path}: its first line names no field {missing[0]!r}, as in [samples]; it has: "
            f"{', '.join(names) or 'nothing'}"
        )


@dataclass(frozen=True)
class Recording:
    """All usable samples of a file, in its order, and the rows that are not usable."""

    batch: Batch
    wrong: list[tuple[Message, str]]

    @classmethod
    def read(cls, path: Path, mapping: SampleMapping) -> Recording:
        """Map a whole file; it is held in RAM."""
        mapped = mapping.map(list(csv_rows(path)))
        whole = [rows for rows in mapped.parts if rows.x is not None and rows.y is not None]
        if not whole:
            reason = f", such as: {mapped.wrong[0][1]}" if mapped.wrong else ""
            raise InputError(f"{path}: there are no usable samples in this file{reason}")
        batch = join(whole)
        x, y = mapping.schema.arrays(batch.x, batch.y)
        return cls(Batch(x, y, batch.ids, batch.times), mapped.wrong)


class RoundReplay:
    """A recording that arrives by rounds, as an arrival process of the simulator says.

    Attributes:
        declared: the process in words that a server can build its ledger from.
        wrong: rows of the file that are not usable, and do not count as arrivals.
    """

    def __init__(self, settings: CsvSettings, mapping: SampleMapping, client: int, seed: int):
        assert settings.arrivals is not None, "the settings say how samples arrive"
        recording = Recording.read(settings.path, mapping)
        self._batch, self.wrong = recording.batch, recording.wrong
        count = len(self._batch)
        self.declared = {**settings.arrivals.model_dump(mode="json"), "samples": count}
        samples = Samples.of(np.array([client]), np.array([count]), seed)
        self._rounds: NDArray[np.int64] = settings.arrivals.make().rounds(samples)

    @classmethod
    def of(
        cls, source: object, mapping: SampleMapping, client: int, seed: int
    ) -> RoundReplay | None:
        """The replay that a ``[source]`` describes; None: it is something else."""
        if isinstance(source, CsvSettings) and source.arrivals is not None:
            return cls(source, mapping, client, seed)
        return None

    def until(self, round: int, arrived: int) -> Iterator[tuple[int, Batch]]:
        """What arrives up to a round, round by round, after the first ``arrived`` samples."""
        end = int(np.searchsorted(self._rounds, round, side="right"))
        while arrived < end:
            now = int(self._rounds[arrived])
            last = int(np.searchsorted(self._rounds, now, side="right"))
            yield now, self._batch.part(slice(arrived, last))
            arrived = last
