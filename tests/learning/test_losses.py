"""Losses and accuracies per sample, against their definitions."""

from __future__ import annotations

import math

import pytest
import torch

import headwater as hw


def test_cross_entropy_of_classes_is_minus_the_log_of_the_softmax():
    logits = torch.tensor([[1.0, 2.0, 0.5], [-1.0, 0.0, 3.0]], dtype=torch.float64)
    labels = [2, 0]
    wanted = [
        -math.log(math.exp(row[y]) / sum(map(math.exp, row)))
        for row, y in zip(logits.tolist(), labels, strict=True)
    ]
    assert hw.cross_entropy(logits, torch.tensor(labels)).tolist() == pytest.approx(wanted)


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
@pytest.mark.parametrize("kind", [torch.int64, torch.float32])
def test_cross_entropy_of_a_coin_takes_one_logit(shape, kind):
    logits, labels = [0.3, -2.0, 5.0, 0.0], [1, 0, 0, 1]
    wanted = [math.log1p(math.exp(-z if y else z)) for z, y in zip(logits, labels, strict=True)]
    losses = hw.cross_entropy(
        torch.tensor(logits, dtype=torch.float64).view(shape), torch.tensor(labels, dtype=kind)
    )
    assert losses.tolist() == pytest.approx(wanted)


def test_a_sequence_counts_its_mean_over_the_places_that_are_not_padding():
    torch.manual_seed(0)
    logits = torch.randn(3, 4, 5, dtype=torch.float64)
    labels = torch.randint(0, 5, (3, 4))
    labels[0, 2:], labels[2] = -1, -1
    places = torch.log_softmax(logits, -1)
    wanted = [
        -(places[0, 0, labels[0, 0]] + places[0, 1, labels[0, 1]]).item() / 2,
        -sum(places[1, t, labels[1, t]].item() for t in range(4)) / 4,
        0.0,
    ]
    assert hw.cross_entropy(logits, labels).tolist() == pytest.approx(wanted)


def test_accuracy_of_classes_coins_and_sequences():
    logits = torch.tensor([[2.0, 1.0], [0.0, 1.0]])
    assert hw.accuracy(logits, torch.tensor([0, 0])).tolist() == [1, 0]
    assert hw.accuracy(torch.tensor([[0.5], [-0.5], [0.1]]), torch.tensor([1, 1, 1])).tolist() == [
        1,
        0,
        1,
    ]
    words = torch.eye(3)[torch.tensor([[0, 1, 2], [2, 2, 2]])]
    labels = torch.tensor([[0, 1, -1], [2, 0, 0]])
    assert hw.accuracy(words, labels).tolist() == pytest.approx([1, 1 / 3])
