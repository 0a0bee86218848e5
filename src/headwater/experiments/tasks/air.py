"""A forecast of the air: how much fine dust changes within six hours, at twelve stations.

A client is a station, a sample an hour: what the station knows then, and the change of
ln(1 + PM2.5) until six hours later, when the sample is complete and arrives. To forecast "no
change" always has R² = 0, and the mean absolute error is that of the forecast of ln(1 + PM2.5).

Time goes one way. Historical stations are archives: they have the first of two years and nothing
later. The others are new: their streams begin with the second year and bring every hour as it came,
gaps and all, and each keeps its newest 48 samples. The run ends with the year 2016; all stations
are tested on the following two months, and learning rates are chosen on the two months before, by
runs that have not seen them. Features are scaled by mean and deviation over the archives.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from headwater.experiments.data.air import START, Air, Hourly, load_air
from headwater.experiments.tasks.models import Dense
from headwater.experiments.tasks.partition import Partition, historical_clients
from headwater.experiments.tasks.scaling import Scaling
from headwater.experiments.tasks.task import Defaults, Split, part, pooled
from headwater.learning.clock import Clock
from headwater.learning.federation import Federation, Part
from headwater.learning.losses import squared_error
from headwater.ledger.arrivals import Arrivals, Once
from headwater.ledger.memory import Fifo, Keep, Memory
from headwater.ledger.recorded import Recorded

Flags = NDArray[np.bool_]
HORIZON = 6
"""Hours from what is known to what is forecast."""

_LAGS = (1, 2, 3, 6, 12, 24)  # hours back, over which the change so far is told
_STREAMS, _VALIDATION, _TEST = (
    int((np.datetime64(day) - START) / np.timedelta64(1, "h"))
    for day in ("2016-03-01", "2016-11-01", "2017-01-01")
)


@dataclass(frozen=True)
class AirTask:
    """Fine dust six hours ahead.

    Attributes:
        capacity: How many of its newest samples a station keeps; 48 are those of two days.
    """

    capacity: int = 48

    name: ClassVar[str] = "air"
    fraction_of: ClassVar[str] = "clients"
    complete: ClassVar[bool] = True
    defaults: ClassVar[Defaults] = Defaults(
        rounds=306, batch_size=64, rates=(0.003, 0.01, 0.03, 0.1), loss=squared_error
    )

    @cached_property
    def data(self) -> tuple[Hourly, Hourly]:
        """Features (stations, hours, features) and targets (stations, hours), NaN where unknown."""
        air = load_air()
        return features(air), change(np.log1p(air.pm25), -HORIZON)

    def split(self, historical: float, rounds: int, seed: int) -> Split:
        """A fraction of the stations are archives; the others' hours come when they came."""
        x, y = self.data
        old = historical_clients(len(y), historical, seed)
        hour = np.arange(y.shape[1])
        done = hour + HORIZON  # when a sample's target is known
        archive = np.isfinite(y) & old[:, None] & (done < _STREAMS)
        scaled = torch.from_numpy(Scaling.of(x[archive])(x.reshape(-1, x.shape[-1])))
        targets = torch.from_numpy(np.nan_to_num(y).astype(np.float32).ravel())

        def federation(end: int, test: Part) -> Federation:
            stream = np.isfinite(y) & ~old[:, None] & (done >= _STREAMS) & (done < end)
            rows = by_station(archive | stream)
            clock = Clock(_STREAMS, (end - _STREAMS) / rounds, numeric=True)
            arrived = clock.rounds(np.broadcast_to(done, y.shape).ravel()[rows.rows])
            return self._stations(part(scaled, targets, rows), arrived, old, test)

        before_test = np.isfinite(y) & (hour >= _VALIDATION) & (done < _TEST)
        validation, test = by_station(before_test), by_station(np.isfinite(y) & (hour >= _TEST))
        return Split(
            tuning=federation(_VALIDATION, pooled(scaled, targets, validation)),
            final=federation(_TEST, part(scaled, targets, test)),
        )

    def model(self, seed: int) -> nn.Module:
        """One hidden layer of 32 units, 673 parameters."""
        return Dense(self.data[0].shape[-1], 32, 1, seed)

    def _stations(
        self, train: Part, arrived: NDArray[np.int64], old: Flags, test: Part
    ) -> Federation:
        recorded = Recorded(arrived, train.offsets)
        arrivals: list[Arrivals] = [Once() if archive else recorded for archive in old]
        memory: list[Memory] = [Keep() if archive else Fifo(self.capacity) for archive in old]
        return Federation(train, arrivals, memory, test)


def features(air: Air) -> Hourly:
    """What a station knows in each hour: (stations, hours, 19).

    The dust now and how it came there, the weather, and the time of day and year.
    """
    dust = np.log1p(air.pm25)
    angle = air.wind_from * (2 * np.pi / 16)
    weather = [
        air.temperature,
        air.pressure,
        change(air.pressure, HORIZON),
        air.dew_point,
        np.log1p(air.rain),
        air.wind_speed,
        air.wind_speed * np.sin(angle),
        air.wind_speed * np.cos(angle),
    ]
    hours = START + np.arange(dust.shape[1])
    time_of_day = (hours - hours.astype("M8[D]")).astype(float) / 24
    time_of_year = (hours - hours.astype("M8[Y]")).astype(float) / (24 * 365.25)
    waves = [f(2 * np.pi * t) for t in (time_of_day, time_of_year) for f in (np.sin, np.cos)]
    told = [dust, *(change(dust, lag) for lag in _LAGS), *weather]
    return np.stack([*told, *(np.broadcast_to(wave, dust.shape) for wave in waves)], axis=-1)


def change(values: Hourly, hours: int) -> Hourly:
    """How much values have changed in the last ``hours``, or will in the next if negative.

    Example:
        >>> change(np.array([[1.0, 4.0, 9.0]]), 1)
        array([[nan,  3.,  5.]])
        >>> change(np.array([[1.0, 4.0, 9.0]]), -2)
        array([[ 8., nan, nan]])
    """
    found = np.full_like(values, np.nan)
    difference = values[:, abs(hours) :] - values[:, : -abs(hours)]
    found[:, abs(hours) :] = difference if hours > 0 else np.nan
    if hours < 0:
        found[:, :hours] = difference
    return found


def by_station(chosen: Flags) -> Partition:
    """The chosen hours of each station, in order of time, as rows of the flattened table."""
    return Partition(np.flatnonzero(chosen), np.concatenate([[0], np.cumsum(chosen.sum(axis=1))]))
