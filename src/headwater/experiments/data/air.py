"""The air of Beijing: two years of fine particles and weather at twelve stations, hour by hour.

The excerpt lies in the package (``air.npz``, 640 kB, written by ``tools/air_excerpt.py``) and is
taken from *Beijing Multi-Site Air Quality*, Song Xi Chen, UCI Machine Learning Repository 2019,
https://doi.org/10.24432/C5RK5G, licensed under CC BY 4.0
(https://creativecommons.org/licenses/by/4.0/): March 2015 to February 2017, seven of its columns,
rounded to tenths and fine particles to whole µg/m³. The data are described in Zhang, Guo, Dong, He,
Xu, Chen: *Cautionary tales on air-quality improvement in Beijing*, Proceedings of the Royal Society
A 473 (2017).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

Hourly = NDArray[np.float64]
START = np.datetime64("2015-03-01T00", "h")
"""The first hour, in local time."""

_MISSING = np.iinfo(np.int16).min
_UNITS = {"pm25": 1.0, "wind_from": 1.0}  # all others are stored in tenths


@dataclass(frozen=True, eq=False)
class Air:
    """One row per station, one column per hour from `START` on; NaN where nothing was measured.

    Attributes:
        stations: Their names.
        pm25: Fine particles in µg/m³.
        temperature: In °C.
        pressure: In hPa.
        dew_point: In °C.
        rain: In mm.
        wind_speed: In m/s.
        wind_from: Where the wind comes from, in sixteenths of a circle: 0 is north, 4 is east.
    """

    stations: NDArray[np.str_]
    pm25: Hourly
    temperature: Hourly
    pressure: Hourly
    dew_point: Hourly
    rain: Hourly
    wind_speed: Hourly
    wind_from: Hourly


def load_air() -> Air:
    """The excerpt.

    Example:
        >>> air = load_air()
        >>> len(air.stations), air.pm25.shape, str(air.stations[0])
        (12, (12, 17544), 'Aotizhongxin')
    """
    with (
        files("headwater.experiments.data").joinpath("air.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as stored,
    ):
        names = [field.name for field in fields(Air)[1:]]
        return Air(stored["stations"], *(_series(stored, name) for name in names))


def _series(stored: Any, name: str) -> Hourly:
    """A column of all stations; stations that share a weather station share its stored series."""
    # Stored are differences; their running sum wraps as the differences did, back to the values.
    whole = np.cumsum(stored[name], axis=1, dtype=np.int16)[stored[f"{name}_of"]]
    return np.where(whole == _MISSING, np.nan, whole * _UNITS.get(name, 0.1))
