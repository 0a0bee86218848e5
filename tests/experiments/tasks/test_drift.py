"""Streams that change: what changes, when, for whom; and that fading helps when they do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import headwater as hw
from headwater.errors import InputError
from headwater.experiments.tasks.drift import Drifting, _other
from headwater.experiments.tasks.synthetic import Synthetic
from headwater.ledger.fading import Fading

ROUNDS = 40


def test_sudden_label_drift_swaps_what_arrives_later_and_the_tests() -> None:
    plain = Synthetic().split(0.2, ROUNDS, 0).final
    drifted = Drifting(Synthetic()).split(0.2, ROUNDS, 0).final
    arrival = plain.holdings(ROUNDS, 0).enter
    rows = plain.train.row_tensor
    changed = (plain.train.y[rows] != drifted.train.y[rows]).numpy()
    np.testing.assert_array_equal(changed, (arrival > 20) & (arrival <= ROUNDS))
    assert plain.test is not None
    assert drifted.test is not None
    assert (plain.test.y != drifted.test.y).all()
    torch.testing.assert_close(plain.train.x, drifted.train.x)


def test_feature_drift_turns_signs_and_leaves_the_task_alone() -> None:
    task = Synthetic()
    before = task.split(0.2, ROUNDS, 0).final.train
    drifted = Drifting(task, what="features").split(0.2, ROUNDS, 0).final.train
    after = task.split(0.2, ROUNDS, 0).final.train
    rows = before.row_tensor
    turned = (before.x[rows] == -drifted.x[rows]).all(1)
    same = (before.x[rows] == drifted.x[rows]).all(1)
    assert (turned | same).all()
    assert 60 < turned.sum() < 100
    torch.testing.assert_close(before.x, after.x)


def test_courses() -> None:
    gradual = Drifting(Synthetic(), course="gradual", at=0.4).new(100)
    assert gradual[:40].max() == 0
    assert gradual[50] == pytest.approx(0.525)
    assert gradual[60:].min() == 1
    turns = Drifting(Synthetic(), course="back and forth", at=0.2).new(10)
    assert turns.tolist() == [0, 0, 1, 1, 0, 0, 1, 1, 0, 0]


def test_classes_change_places_in_pairs() -> None:
    labels = torch.tensor([0, 1, 2, 3, 4, -1])
    assert _other(labels, labels).tolist() == [1, 0, 3, 2, 4, -1]
    assert _other(torch.tensor([1.5]), torch.tensor([1.5])).tolist() == [-1.5]


@pytest.mark.parametrize("wrong", [{"course": "slow"}, {"what": "x"}, {"at": 1.0}])
def test_what_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        Drifting(Synthetic(), **wrong)  # type: ignore[arg-type]


def test_after_a_change_of_labels_history_misleads_and_fading_forgets_it() -> None:
    task = Drifting(Synthetic(samples=1000), at=0.5)
    federation = task.split(0.2, 100, 0).final

    def accuracy(strategy: hw.Strategy) -> float:
        run = hw.simulate(task.model(0), federation, strategy, 100, 5, learning_rate=0.1, workers=0)
        assert run.history[-1].accuracy is not None
        return run.history[-1].accuracy

    old, fading = accuracy(hw.Historical()), accuracy(Fading(half_life=10))
    assert old < 0.4
    assert fading > 0.6
