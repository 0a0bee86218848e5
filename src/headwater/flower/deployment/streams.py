"""What the clients of a fleet on one machine see: recorded streams, one CSV file per client.

The default is the air of twelve stations in Beijing (in the package, CC BY 4.0): from this hour's
fine particles and weather, will the air be bad six hours from now? A CSV file of your own needs a
column that says whose row it is.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwater.errors import InputError
from headwater.flower.deployment.names import check_names
from headwater.randomness import Floats

AHEAD = 6  # hours
BAD_AIR = 75.0  # µg/m³ of fine particles


@dataclass(frozen=True)
class Recorded:
    """Streams with names: what a fleet replays.

    Attributes:
        features: names of the columns that the model sees.
        classes: names of the classes, in order; the label's column is "label".
        clients: names of the clients.
        rows: each client's rows in order of time: features, then the class's number.
    """

    features: tuple[str, ...]
    classes: tuple[str, ...]
    clients: tuple[str, ...]
    rows: tuple[Floats, ...]

    @property
    def scaling(self) -> tuple[Floats, Floats]:
        """Mean and spread of the features, from every client's first hundredth of its stream."""
        early = np.concatenate([r[: max(2, len(r) // 100), :-1] for r in self.rows])
        spread = early.std(axis=0)
        return early.mean(axis=0), np.where(spread > 0, spread, 1.0)

    def write(self, client: int, path: Path, rows: slice) -> None:
        """Some rows of a client as a CSV file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*self.features, "label"])
            for row in self.rows[client][rows]:
                writer.writerow([*(f"{value:.6g}" for value in row[:-1]), int(row[-1])])


def air_quality(clients: int) -> Recorded:
    """The stations of the package's excerpt."""
    from headwater.experiments.data.air import load_air

    air = load_air()
    if not 1 <= clients <= len(air.stations):
        raise InputError(f"--clients: from 1 to {len(air.stations)} stations; got {clients}")
    angle = air.wind_from * (2 * np.pi / 16)
    columns = {
        "pm25": np.log1p(air.pm25),
        "temperature": air.temperature,
        "pressure": air.pressure,
        "dew_point": air.dew_point,
        "rain": air.rain,
        "wind_speed": air.wind_speed,
        "wind_north": np.cos(angle) * air.wind_speed,
        "wind_east": np.sin(angle) * air.wind_speed,
    }
    later = air.pm25[:, AHEAD:]
    table = np.stack([column[:, :-AHEAD] for column in columns.values()], axis=-1)
    rows = []
    for station in range(clients):
        full = np.column_stack([table[station], later[station] > BAD_AIR])
        known = np.isfinite(table[station]).all(axis=1) & np.isfinite(later[station])
        rows.append(full[known])
    names = tuple(str(name) for name in air.stations[:clients])
    return Recorded(tuple(columns), ("good", "bad"), names, tuple(rows))


def from_csv(path: Path, client: str, label: str, most: int) -> Recorded:
    """Streams from a CSV file: all other columns that are numbers are features."""
    table = _table(path)
    if not table:
        raise InputError(f"{path}: there are no rows in it")
    for column in (client, label):
        if column not in table[0]:
            raise InputError(f"{path}: no column {column!r}; there are {', '.join(table[0])}")
    features = tuple(c for c in table[0] if c not in (client, label) and _numeric(table, c))
    classes = tuple(sorted({row[label] for row in table}))
    if not features or len(classes) < 2:
        raise InputError(
            f"{path}: {len(features)} columns of numbers and {len(classes)} classes in {label!r}; "
            "at least 1 and 2 are needed"
        )
    names = list(dict.fromkeys(row[client] for row in table))[:most]
    check_names(f"{path}, column {client!r}", names)
    number = {name: k for k, name in enumerate(classes)}
    rows = tuple(
        np.array(
            [
                [*(float(row[feature]) for feature in features), number[row[label]]]
                for row in table
                if row[client] == name
            ]
        )
        for name in names
    )
    return Recorded(features, classes, tuple(names), rows)


def _table(path: Path) -> list[dict[str, str]]:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; --csv names a file with streams") from error


def _numeric(table: Sequence[dict[str, str]], column: str) -> bool:
    try:
        return all(np.isfinite(float(row[column])) for row in table)
    except (TypeError, ValueError):
        return False
