"""The phones' task: who learns from what, and that nothing of the future is used."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from real_slices import FIXTURES

from headwater import Uniform, simulate
from headwater.experiments.tasks.activity import ActivityTask, stages
from headwater.learning.evaluation import evaluate
from headwater.learning.federation import Part

ROUNDS = 12


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_DATA", str(tmp_path / "home"))


@pytest.fixture
def task() -> ActivityTask:
    return ActivityTask(FIXTURES)


def rows(part: Part | None) -> list[np.ndarray]:
    """The rows of each client."""
    assert part is not None
    assert part.rows is not None
    return np.split(part.rows, part.offsets[1:-1])


def test_what_is_tested_comes_after_what_was_learned_of_the_same_activity(
    task: ActivityTask,
) -> None:
    split = task.split(0.5, ROUNDS, 0)
    labels = task.data.labels
    for train, test in zip(rows(split.final.train), rows(split.final.test), strict=True):
        assert len(test)
        assert set(task.data.client[train]) == set(task.data.client[test])
        for activity in set(labels[test]):
            of_it = train[labels[train] == activity]
            assert of_it.max() < test[labels[test] == activity].min()
    learned, checked = np.concatenate(rows(split.tuning.train)), rows(split.tuning.test)[0]
    assert not set(learned) & set(checked)
    assert sorted([*learned, *checked]) == sorted(np.concatenate(rows(split.final.train)))


def test_streams_keep_the_order_of_recording(task: ActivityTask) -> None:
    for train in rows(task.split(0.5, ROUNDS, 1).final.train):
        assert all(a < b for a, b in pairwise(train))


def test_fresh_phones_come_and_go_with_their_newest_ten(task: ActivityTask) -> None:
    federation = task.split(0.25, ROUNDS, 0).final
    holdings = federation.holdings(ROUNDS)
    assert holdings.historical.sum() == 1
    assert (holdings.collected == federation.train.counts).all()
    held = np.array([holdings.held(t) for t in range(1, ROUNDS + 1)])
    assert held.any(axis=1).all()
    for client in np.flatnonzero(~holdings.historical):
        own = held[:, holdings.client == client].sum(axis=1)
        there = np.flatnonzero(own)
        assert len(there) == ROUNDS // 3
        assert np.ptp(there) == len(there) - 1
        assert own.max() <= max(10, -(-federation.train.counts[client] // 4))
    fresh = ~holdings.historical[holdings.client]
    assert held[0][fresh].any()
    assert held[-1][fresh].any()


def test_features_are_scaled_by_the_historical_users_alone(task: ActivityTask) -> None:
    federation = task.split(0.5, ROUNDS, 0).final
    old = federation.holdings(ROUNDS).historical
    seen = np.concatenate([r for r, o in zip(rows(federation.train), old, strict=True) if o])
    features = task.data.features.astype(np.float64)
    features[:, 33:36] = np.log1p(features[:, 33:36])  # the times between peaks
    mean, deviation = np.nanmean(features[seen], 0), np.nanstd(features[seen], 0)
    moves = deviation > 0
    assert moves.sum() == 42  # one feature is 0 throughout
    expected = np.clip((features - mean)[:, moves] / deviation[moves], -5, 5)
    scaled = federation.train.x.numpy()[:, moves]
    np.testing.assert_allclose(scaled, np.nan_to_num(expected), atol=1e-5)
    assert np.abs(scaled.mean(0)).max() > 0.1  # the others differ


def test_stages_by_hand() -> None:
    client = np.array([0] * 6 + [1] * 6, np.int32)
    labels = np.array([0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0])
    assert stages(client, labels, 0.25).tolist() == [0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 1, 2]


def test_a_seed_decides_who_is_historical(task: ActivityTask) -> None:
    old = [tuple(task.split(0.5, ROUNDS, s).final.holdings(ROUNDS).historical) for s in (0, 0, 1)]
    assert old[0] == old[1]
    assert len({tuple(task.split(0.5, 5, s).final.holdings(5).historical) for s in range(6)}) > 1


def test_it_learns(task: ActivityTask) -> None:
    federation = task.split(0.5, 30, 0).final
    run = simulate(task.model(0), federation, Uniform(), 30, 5, learning_rate=0.1, workers=0)
    assert run.history[-1].accuracy is not None
    assert run.history[-1].accuracy > 0.45  # always "Walking" would be right in 0.38


@pytest.mark.needs_data
def test_uniform_comes_near_one_model_trained_in_one_place(shared: Path) -> None:
    task = ActivityTask(shared / "sensors")
    assert task.complete
    federation = task.split(0.5, 150, 0).final
    run = simulate(task.model(0), federation, Uniform(), 150, 5, learning_rate=0.1, workers=0)
    assert federation.test is not None
    central = task.model(0)
    descent = torch.optim.SGD(central.parameters(), 0.3)
    x, y, learned = federation.train.x, federation.train.y, federation.train.row_tensor
    for _ in range(500):
        descent.zero_grad()
        torch.nn.functional.cross_entropy(central(x[learned]), y[learned]).backward()
        descent.step()
    best = float(np.nanmean(evaluate(central, federation.test).accuracy))
    assert best > 0.7
    averaged = float(np.nanmean(evaluate(run.average, federation.test).accuracy))
    assert averaged > best - 0.1
