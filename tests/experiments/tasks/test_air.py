"""The forecast of the air: nothing of the future is learned from, and forecasts beat no change."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headwater import Uniform, simulate
from headwater.experiments.data.air import load_air
from headwater.experiments.tasks.air import AirTask, change
from headwater.learning.evaluation import evaluate
from headwater.learning.federation import Federation, Part
from headwater.learning.losses import squared_error

ROUNDS = 100
STREAMS, VALIDATION, TEST = (
    int((np.datetime64(day) - np.datetime64("2015-03-01")) / np.timedelta64(1, "h"))
    for day in ("2016-03-01", "2016-11-01", "2017-01-01")
)


@pytest.fixture(scope="module")
def task() -> AirTask:
    return AirTask()


def hours(part: Part | None) -> list[np.ndarray]:
    """The hours of each client's samples; a pooled part is one client."""
    assert part is not None
    assert part.rows is not None
    return np.split(part.rows % 17544, part.offsets[1:-1])


def old(federation: Federation) -> np.ndarray:
    return np.asarray(federation.holdings(ROUNDS).historical)


def test_archives_are_the_first_year_streams_the_second_and_tests_come_after_all(
    task: AirTask,
) -> None:
    split = task.split(0.25, ROUNDS, 0)
    assert old(split.final).sum() == 3
    for federation, end in ((split.tuning, VALIDATION), (split.final, TEST)):
        for archive, learned in zip(old(federation), hours(federation.train), strict=True):
            known = learned + 6  # when the target is known
            assert (np.diff(learned) > 0).all()
            assert known.max() < (STREAMS if archive else end)
            assert archive or known.min() >= STREAMS
        tested = np.concatenate(hours(federation.test))
        assert tested.min() >= end
    assert np.concatenate(hours(split.tuning.test)).max() + 6 < TEST
    assert len(split.final.test.offsets) == 13  # type: ignore[union-attr]


def test_samples_arrive_in_the_round_of_their_hour_and_gaps_stay_gaps(task: AirTask) -> None:
    federation = task.split(0.25, ROUNDS, 0).final
    holdings = federation.holdings(ROUNDS)
    station = int(np.flatnonzero(~old(federation))[0])
    mine = holdings.client == station
    known = hours(federation.train)[station] + 6
    expected = 1 + ((known - STREAMS) * ROUNDS) // (TEST - STREAMS)
    np.testing.assert_array_equal(holdings.enter[mine], expected)
    assert (np.diff(known) > 1).any()  # an hour without a measurement
    held = [int(holdings.held(t)[mine].sum()) for t in range(1, ROUNDS + 1)]
    assert max(held) == 48


def test_targets_and_features_are_what_they_say(task: AirTask) -> None:
    x, y = task.data
    dust = np.log1p(load_air().pm25)
    assert y[3, 500] == dust[3, 506] - dust[3, 500]
    assert x[3, 500, 0] == dust[3, 500]
    assert x[3, 500, 6] == dust[3, 500] - dust[3, 476]  # the last of the lags, a day
    assert x.shape[-1] == 19
    np.testing.assert_array_equal(change(np.array([[1.0, 4.0, 9.0]]), 2), [[np.nan, np.nan, 8.0]])


def test_features_are_scaled_by_the_archives_alone(task: AirTask) -> None:
    federation = task.split(0.25, ROUNDS, 1).final
    mine = np.repeat(old(federation), federation.train.counts)
    assert federation.train.rows is not None
    seen = federation.train.x[torch.from_numpy(federation.train.rows[mine])]
    others = federation.train.x[torch.from_numpy(federation.train.rows[~mine])]
    np.testing.assert_allclose(seen.mean(0), 0, atol=0.05)  # rain beyond five deviations is cut
    assert others.mean(0).abs().max() > 0.1


def test_forecasts_beat_no_change_and_come_near_one_model_trained_in_one_place(
    task: AirTask,
) -> None:
    federation = task.split(0.25, ROUNDS, 0).final
    assert federation.test is not None
    run = simulate(
        task.model(0), federation, Uniform(), ROUNDS, 2, 64, 0.05, loss=squared_error, workers=0
    )
    score = evaluate(run.average, federation.test, squared_error)
    nothing = task.model(0)
    torch.nn.init.zeros_(nothing.output.weight)  # type: ignore[union-attr, arg-type]
    torch.nn.init.zeros_(nothing.output.bias)  # type: ignore[union-attr, arg-type]
    no_change = evaluate(nothing, federation.test, squared_error)
    assert score.mean("mae") < 0.95 * no_change.mean("mae")
    assert score.mean("r2") > 0.2
    assert score.mean("mae") < 1.06 * evaluate(
        central(task, federation), federation.test, squared_error
    ).mean("mae")


def central(task: AirTask, federation: Federation) -> torch.nn.Module:
    """One model that learns from all samples in one place, with Adam."""
    model = task.model(0)
    descent = torch.optim.Adam(model.parameters(), 1e-2)
    draw = torch.Generator().manual_seed(0)
    rows = federation.train.row_tensor
    assert rows is not None
    for _ in range(250):
        some = rows[torch.randint(0, len(rows), (2048,), generator=draw)]
        descent.zero_grad()
        squared_error(model(federation.train.x[some]), federation.train.y[some]).mean().backward()
        descent.step()
    return model
