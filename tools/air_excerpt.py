"""Writes the excerpt of the air-quality data that lies in the package.

    python tools/air_excerpt.py PRSA_Data_20130301-20170228.zip

The zip holds one CSV per station, as in the UCI repository's *Beijing Multi-Site Air Quality*
(https://doi.org/10.24432/C5RK5G, CC BY 4.0). Kept are the last two years, fine particles and
weather, in whole µg/m³ and in tenths. Neighbouring stations share a weather station, so equal
series are kept once.
"""

from __future__ import annotations

import csv
import io
import sys
import zipfile
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

TARGET = Path(__file__).parents[1] / "src" / "headwater" / "experiments" / "data" / "air.npz"
START = datetime(2015, 3, 1)
HOURS = 2 * 365 * 24 + 24  # to the end of February 2017; 2016 has a leap day
MISSING = np.iinfo(np.int16).min
SCALES = {"PM2.5": 1, "TEMP": 10, "PRES": 10, "DEWP": 10, "RAIN": 10, "WSPM": 10}
NAMES = {"PM2.5": "pm25", "TEMP": "temperature", "PRES": "pressure", "DEWP": "dew_point"}
NAMES |= {"RAIN": "rain", "WSPM": "wind_speed", "wd": "wind_from"}
COMPASS = ["N", "NNE", "NE", "ENE", "E", "ESE", "SE", "SSE"]
COMPASS += ["S", "SSW", "SW", "WSW", "W", "WNW", "NW", "NNW"]


def read(text: io.TextIOBase) -> tuple[str, dict[str, np.ndarray]]:
    """One station's name and its columns, one entry per hour."""
    columns = {name: np.full(HOURS, MISSING, np.int16) for name in (*SCALES, "wd")}
    station = ""
    for row in csv.DictReader(text):
        station = row["station"]
        when = datetime(*(int(row[part]) for part in ("year", "month", "day", "hour")))
        hour = (when - START) // timedelta(hours=1)
        if 0 <= hour < HOURS:
            for name, column in columns.items():
                column[hour] = number(name, row[name])
    return station, columns


def number(name: str, text: str) -> int:
    """A value as the whole number that is stored."""
    if text in ("NA", ""):
        return MISSING
    return COMPASS.index(text) if name == "wd" else round(float(text) * SCALES[name])


def write(source: Path, target: Path) -> None:
    """The excerpt of all stations."""
    with zipfile.ZipFile(source) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".csv"))
        found = [read(io.TextIOWrapper(archive.open(name), "utf-8")) for name in names]
    arrays: dict[str, np.ndarray] = {"stations": np.array([station for station, _ in found])}
    for column, name in NAMES.items():
        series = np.array([columns[column] for _, columns in found])
        once, which = np.unique(series, axis=0, return_inverse=True)
        # Differences from hour to hour are small numbers, which pack far better.
        arrays[name] = np.diff(once, axis=1, prepend=np.int16(0))
        arrays[f"{name}_of"] = which.astype(np.uint8).reshape(-1)
    np.savez_compressed(target, **arrays)
    print(f"{target}: {target.stat().st_size:,} bytes, {len(found)} stations, {HOURS} hours")


if __name__ == "__main__":
    write(Path(sys.argv[1]), TARGET)
