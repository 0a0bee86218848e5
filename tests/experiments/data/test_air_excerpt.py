"""The excerpt of the air in the package: what it says, and that it is what the original says."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from headwater.experiments.data.air import START, load_air

FIELDS = {"PM2.5": "pm25", "TEMP": "temperature", "PRES": "pressure", "DEWP": "dew_point"}
FIELDS |= {"RAIN": "rain", "WSPM": "wind_speed"}


def test_the_numbers_are_those_of_air() -> None:
    air = load_air()
    assert len(set(air.stations.tolist())) == 12
    assert air.pm25.shape == air.wind_from.shape == (12, 17544)
    limits = {"pm25": (1, 999), "temperature": (-25, 45), "pressure": (970, 1050)}
    limits |= {"dew_point": (-40, 35), "rain": (0, 100), "wind_speed": (0, 20)}
    for name, (low, high) in limits.items():
        values = getattr(air, name)
        assert np.nanmin(values) >= low
        assert np.nanmax(values) <= high
        assert np.isnan(values).mean() < 0.04
    assert set(np.unique(air.wind_from[np.isfinite(air.wind_from)])) == set(range(16))
    assert 70 < np.nanmean(air.pm25) < 90


def test_neighbours_breathe_much_the_same_air() -> None:
    pm25 = np.log1p(load_air().pm25)
    known = np.isfinite(pm25).all(axis=0)
    assert np.corrcoef(pm25[:, known]).min() > 0.7


def test_winter_is_cold_and_noon_is_warm() -> None:
    air = load_air()
    hours = START + np.arange(17544)
    month = hours.astype("M8[M]").astype(int) % 12 + 1
    clock = (hours - hours.astype("M8[D]")).astype(int)
    mean = air.temperature[0]
    assert np.nanmean(mean[month == 1]) < 0 < 24 < np.nanmean(mean[month == 7])
    assert np.nanmean(mean[clock == 15]) > np.nanmean(mean[clock == 5]) + 5


@pytest.mark.needs_data
def test_every_number_is_that_of_the_original(shared: Path) -> None:
    air = load_air()
    first = int(
        (np.datetime64("2015-03-01") - np.datetime64("2013-03-01")) / np.timedelta64(1, "h")
    )
    with zipfile.ZipFile(shared / "sensors" / "PRSA_Data_20130301-20170228.zip") as archive:
        for name in archive.namelist():
            rows = list(csv.DictReader(io.TextIOWrapper(archive.open(name))))[first:]
            station = air.stations.tolist().index(rows[0]["station"])
            for column, field in FIELDS.items():
                there = np.array([float(r[column]) if r[column] != "NA" else np.nan for r in rows])
                half = 0.501 if column == "PM2.5" else 0.0501  # of the last digit that is kept
                np.testing.assert_allclose(getattr(air, field)[station], there, atol=half)
