"""Tests of a model: one number a client, all clients in one pass."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import headwater as hw

COUNTS = [3, 1, 6, 2]


@pytest.fixture
def part():
    torch.manual_seed(0)
    offsets = np.concatenate([[0], np.cumsum(COUNTS)])
    return hw.Part(torch.randn(12, 4), torch.randint(0, 3, (12,)), offsets)


def scores_one_by_one(model, part):
    scores = []
    for first, last in zip(part.offsets[:-1], part.offsets[1:], strict=True):
        rows = slice(first, last) if part.rows is None else torch.tensor(part.rows[first:last])
        with torch.no_grad():
            logits = model(part.x[rows])
        right = (logits.argmax(1) == part.y[rows]).double().mean().item()
        scores.append((right, nn.functional.cross_entropy(logits, part.y[rows]).item()))
    return np.array(scores).T


@pytest.mark.parametrize("batch", [None, 1, 5, 12, 100])
def test_clients_together_are_clients_one_by_one(part, batch):
    model = nn.Linear(4, 3)
    accuracy, loss = scores_one_by_one(model, part)
    score = hw.evaluate(model, part, batch=batch)
    np.testing.assert_allclose(score.accuracy, accuracy)
    np.testing.assert_allclose(score.loss, loss, rtol=1e-5)


def test_clients_may_share_rows(part):
    shared = hw.Part(part.x, part.y, part.offsets, np.array([5, 5, 0, 11, 1, 2, 3, 4, 5, 6, 0, 7]))
    model = nn.Linear(4, 3)
    accuracy, loss = scores_one_by_one(model, shared)
    score = hw.evaluate(model, shared)
    np.testing.assert_allclose(score.accuracy, accuracy)
    np.testing.assert_allclose(score.loss, loss, rtol=1e-5)


def test_dropout_is_off_and_on_again_afterwards(part):
    model = nn.Sequential(nn.Linear(4, 30), nn.Dropout(0.9), nn.Linear(30, 3))
    one, two = hw.evaluate(model, part), hw.evaluate(model, part)
    np.testing.assert_array_equal(one.loss, two.loss)
    assert model.training
    model.eval()
    hw.evaluate(model, part)
    assert not model.training


def test_a_model_in_double_precision_is_tested_in_it(part):
    model = nn.Linear(4, 3)
    single = hw.evaluate(model, part)
    np.testing.assert_allclose(hw.evaluate(model.double(), part).loss, single.loss, rtol=1e-5)


def test_a_client_without_samples_has_no_score_and_spoils_no_other(part):
    model = nn.Linear(4, 3)
    with_gap = hw.Part(part.x, part.y, np.insert(part.offsets, 2, part.offsets[2]))
    score = hw.evaluate(model, with_gap)
    assert np.isnan(score.accuracy[2])
    np.testing.assert_allclose(np.delete(score.accuracy, 2), hw.evaluate(model, part).accuracy)


def test_clients_without_a_test_set_do_not_count():
    torch.manual_seed(0)
    x, y = torch.randn(12, 4), torch.randint(0, 3, (12,))
    clients = [
        hw.Client(x, y),
        hw.Client(x, y, test=(x[:5], y[:5])),
        hw.Client(x, y, test=(x[5:], y[5:])),
    ]
    federation = hw.Federation.of(clients)
    assert federation.test is not None
    assert federation.test.counts.tolist() == [0, 5, 7]
    run = hw.simulate(nn.Linear(4, 3), federation, rounds=2, learning_rate=0.1)
    accuracy, loss = scores_one_by_one(run.model, hw.Part(x, y, np.array([0, 5, 12])))
    assert run.history[-1].accuracy == pytest.approx(accuracy.mean())
    assert run.history[-1].loss == pytest.approx(loss.mean(), rel=1e-5)


def test_test_sets_of_different_shapes_are_refused_by_the_clients_numbers():
    x, y = torch.randn(6, 4), torch.zeros(6, dtype=torch.long)
    wide = hw.Client(torch.randn(6, 5), y, test=(torch.randn(2, 5), y[:2]))
    with pytest.raises(
        hw.InputError, match=r"client 2: test samples \(5,\).*client 1 has samples \(4,\)"
    ):
        hw.Federation.of([hw.Client(x, y), hw.Client(x, y, test=(x, y)), wide])
