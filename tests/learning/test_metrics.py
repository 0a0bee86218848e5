"""Metrics by name: values by hand, per client, the worst tenth, and what fails is counted."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import headwater as hw
from headwater.learning.evaluation import Score


class Given(nn.Module):
    """Answers with the first feature."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x[:, :1] * self.scale


def part(answers, labels, counts):
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return hw.Part(torch.tensor(answers)[:, None], torch.tensor(labels), offsets)


def test_the_errors_of_a_regression_by_hand():
    """Client 0: answers 1, 3 for 2, 4: errors 1, 1; the spread is 1 + 1, so R² = 1 − 2/2 = 0.
    Client 1: answers 1, 2, 6 for 1, 2, 3: error 3 once; the spread is 2, so R² = 1 − 9/2."""
    score = hw.evaluate(
        Given(), part([1.0, 3, 1, 2, 6], [2.0, 4, 1, 2, 3], [2, 3]), hw.squared_error
    )
    np.testing.assert_allclose(score["mae"], [1, 1])
    np.testing.assert_allclose(score["r2"], [0, -3.5])
    np.testing.assert_allclose(score.loss, [1, 3])
    assert set(score.values) == {"loss", "mae", "r2"}


def test_r2_is_that_of_the_textbook_even_far_from_zero():
    rng = np.random.default_rng(0)
    labels = 1e5 + rng.normal(size=40)
    answers = labels + 0.3 * rng.normal(size=40)
    score = hw.evaluate(Given().double(), part(answers, labels, [40]), hw.squared_error)
    wanted = 1 - np.square(labels - answers).sum() / np.square(labels - labels.mean()).sum()
    assert score["r2"][0] == pytest.approx(wanted, rel=1e-4)


def test_r2_of_labels_all_alike_does_not_exist_and_does_not_count():
    score = hw.evaluate(Given(), part([1.0, 2, 1, 2], [5.0, 5, 1, 2], [2, 2]), hw.squared_error)
    assert np.isnan(score["r2"][0])
    assert score.mean("r2") == 1.0
    assert not len(score.failed_clients)


def test_one_failing_client_is_named_and_spoils_no_other():
    """The old running sum made every later client NaN, and the mean left them all out."""
    answers = [1.0, 1.0, np.nan, 2.0, 3.0, 3.0]
    score = hw.evaluate(Given(), part(answers, [1.0, 2, 1, 1, 3, 4], [2, 2, 2]), hw.squared_error)
    assert score.failed_clients.tolist() == [1]
    np.testing.assert_allclose(score.loss[[0, 2]], [0.5, 0.5])
    assert np.isnan(score.mean("loss"))
    assert score.worst("loss") is None


def test_a_run_counts_and_names_the_clients_for_whom_the_model_fails():
    x, y = np.ones((4, 1), np.float32), np.ones(4, np.float32)
    far = np.full((4, 1), 1e30, np.float32)
    clients = [hw.Client(x, y, test=(x, y)), hw.Client(x, y, test=(far, y))]
    with pytest.warns(RuntimeWarning, match=r"round 1: the test of 1 clients .*client 1\)"):
        run = hw.simulate(Given(), clients, rounds=1, loss=hw.squared_error)
    assert run.history[-1].failed == 1
    assert run.history[-1].loss == np.inf
    assert run.score.failed_clients.tolist() == [1]


def test_the_worst_tenth_is_the_mean_of_the_worst_clients():
    values = np.arange(20.0)
    score = Score(
        {"loss": values, "accuracy": values, "own": values},
        {name: np.array([], int) for name in ("loss", "accuracy", "own")},
        {"loss": "lower", "accuracy": "higher"},
    )
    assert score.worst("loss") == 18.5
    assert score.worst("accuracy") == 0.5
    assert score.worst("own") is None


def stations(count=12, seed=0):
    rng = np.random.default_rng(seed)
    weights = np.array([1.0, -2.0, 0.5])
    clients = []
    for m in range(count):
        x = rng.normal(size=(30, 3))
        y = x @ weights + 0.1 * (m + 1) * rng.normal(size=30)
        clients.append(hw.Client(x[:20], y[:20], test=(x[20:], y[20:])))
    return clients


def test_a_regression_has_its_metrics_and_no_accuracy():
    run = hw.simulate(
        nn.Linear(3, 1), stations(), rounds=60, loss=hw.squared_error, learning_rate=0.2
    )
    last = run.history[-1]
    assert last.accuracy is None
    assert set(last.metrics) == {"mae", "r2"}
    assert last.metrics["r2"] > 0.8
    assert last.worst["mae"] > last.metrics["mae"]
    assert last.worst["r2"] < last.metrics["r2"]
    assert last.worst["loss"] > last.loss
    assert run.score["mae"].shape == (12,)
    assert last.metrics["mae"] == pytest.approx(run.score["mae"].mean())
    assert last.worst["mae"] == pytest.approx(np.sort(run.score["mae"])[-2:].mean())


def test_metrics_of_ones_own_with_and_without_a_better_end():
    def within(output, target):
        return ((output[:, 0] - target).abs() < 0.5).float()

    run = hw.simulate(
        nn.Linear(3, 1),
        stations(),
        rounds=3,
        loss=hw.squared_error,
        metrics={"within": within, "known": hw.Metric(within, "higher"), "mae": hw.absolute_error},
    )
    last = run.history[-1]
    assert last.metrics["within"] == last.metrics["known"]
    assert set(last.worst) == {"loss", "known", "mae"}


def test_a_loss_of_ones_own_has_no_metric_but_itself():
    run = hw.simulate(nn.Linear(3, 1), stations(), rounds=2, loss=lambda o, t: (o[:, 0] - t).abs())
    assert run.history[-1].metrics == {}
    assert run.history[-1].loss > 0


def test_one_common_test_set_is_stored_once():
    clients = [hw.Client(c.x, c.y) for c in stations()]
    test = stations(1)[0].test
    run = hw.simulate(nn.Linear(3, 1), clients, rounds=3, loss=hw.squared_error, test=test)
    with torch.no_grad():
        errors = run.model(test[0].float())[:, 0] - test[1].float()
    assert run.history[-1].metrics["mae"] == pytest.approx(errors.abs().mean().item(), rel=1e-5)
    assert run.score["mae"].shape == (1,)
    assert run.history[-1].worst == {}
    federation = hw.Federation.of(clients, test)
    assert len(federation.test.x) == len(test[0])
    again = hw.simulate(nn.Linear(3, 1), federation, rounds=3, loss=hw.squared_error)
    assert again.history[-1].tested


def test_a_common_test_set_and_tests_of_the_clients_own_exclude_each_other():
    clients = stations()
    with pytest.raises(hw.InputError, match=r"test: a common test set, but clients have"):
        hw.simulate(nn.Linear(3, 1), clients, loss=hw.squared_error, test=clients[0].test)


def test_features_keep_their_precision_until_they_meet_the_model():
    """Two timestamps that differ in the ninth digit: equal in float32, not in float64."""
    times = np.array([[1_700_000_001.0], [1_700_000_002.0]])
    client = hw.Client(times, np.array([0.0, 1.0]))
    assert client.x.dtype == torch.float64
    assert client.x[0] != client.x[1]
    seen = []

    def loss(output, target):
        seen.append(output.detach().clone())
        return hw.squared_error(output, target)

    hw.simulate(Given().double(), [client], rounds=1, loss=loss, learning_rate=1e-30)
    assert max(float(o.max() - o.min()) for o in seen if len(o) == 2) == 1.0


def test_labels_keep_theirs_and_follow_the_model():
    x, y = np.zeros((2, 1)), np.array([1 / 3, 2 / 3])
    kinds = []

    def loss(output, target):
        kinds.append(target.dtype)
        return hw.squared_error(output, target)

    hw.simulate(Given().double(), [hw.Client(x, y)], rounds=1, loss=loss)
    hw.simulate(Given(), [hw.Client(x, y)], rounds=1, loss=loss)
    assert set(kinds) == {torch.float64, torch.float32}
    assert hw.Client(x, y).y.dtype == torch.float64


@pytest.mark.parametrize("kind", [">f8", ">f4", ">i4", "g", "<f2", "u2"])
def test_arrays_of_any_kind_hold_the_same_numbers(kind):
    values = np.array([[1.0, 2.0], [3.0, 4.0]]).astype(kind)
    client = hw.Client(values, np.array([0, 1], ">i8"))
    np.testing.assert_array_equal(client.x.double().numpy(), [[1, 2], [3, 4]])
    assert client.y.tolist() == [0, 1]
