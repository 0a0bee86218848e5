"""The paper's models: sizes, shapes, seeds, and what their shortcuts must not change."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from headwater.experiments.tasks.models import CifarNet, FemnistNet, Logistic, ShakespeareNet

MAKERS: dict[int, Callable[[int], nn.Module]] = {
    21: lambda seed: Logistic(seed=seed),
    3_353_034: lambda seed: CifarNet(10, seed),
    3_537_444: lambda seed: CifarNet(100, seed),
    867_390: FemnistNet,
    226_180: ShakespeareNet,
}


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize("size", MAKERS)
def test_parameter_counts_are_the_papers(size: int) -> None:
    assert flat(MAKERS[size](0)).numel() == size


@pytest.mark.parametrize("size", MAKERS)
def test_the_seed_decides_and_the_global_generator_is_left_alone(size: int) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = flat(MAKERS[size](1))
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    assert torch.equal(flat(MAKERS[size](1)), first)
    assert not torch.equal(flat(MAKERS[size](2)), first)


def test_weights_are_pytorchs_own_choice() -> None:
    torch.manual_seed(7)
    expected = nn.Conv2d(3, 32, 5).weight
    assert torch.equal(CifarNet(seed=7).conv1.weight, expected)


def test_logits_serve_binary_cross_entropy() -> None:
    model, x = Logistic(seed=1), torch.randn(6, 20, generator=torch.Generator().manual_seed(0))
    logits = model(x)
    assert logits.shape == (6,)
    torch.testing.assert_close(logits, x @ model.linear.weight[0] + model.linear.bias)
    functional.binary_cross_entropy_with_logits(logits, torch.ones(6)).backward()


def test_pooling_before_relu_changes_nothing() -> None:
    model, x = (
        CifarNet(seed=3),
        torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0)),
    )
    usual = functional.max_pool2d(functional.relu(model.conv1(x)), 2)
    usual = functional.max_pool2d(functional.relu(model.conv2(usual)), 2)
    usual = model.output(functional.relu(model.hidden(usual.flatten(1))))
    torch.testing.assert_close(model(x), usual)
    assert CifarNet(100)(x).shape == (4, 100)


def test_images_may_come_flat_or_square() -> None:
    model, x = FemnistNet(), torch.rand(3, 28, 28, generator=torch.Generator().manual_seed(0))
    assert model(x).shape == (3, 62)
    torch.testing.assert_close(model(x), model(x.reshape(3, 784)))


def test_the_recurrence_is_elmans_and_padding_at_the_end_changes_nothing_before_it() -> None:
    model = ShakespeareNet(seed=2)
    text = torch.randint(0, 100, (2, 12), generator=torch.Generator().manual_seed(0))
    logits = model(text)
    assert logits.shape == (2, 12, 100)
    padded = torch.cat([text, torch.full((2, 5), 94)], dim=1)
    torch.testing.assert_close(model(padded)[:, :12], logits)

    net = model.recurrent
    below, above = torch.zeros(2, 256), torch.zeros(2, 256)
    for step in range(12):
        x = model.embedding.weight[text[:, step]]
        below = torch.tanh(
            x @ net.weight_ih_l0.T + net.bias_ih_l0 + below @ net.weight_hh_l0.T + net.bias_hh_l0
        )
        above = torch.tanh(
            below @ net.weight_ih_l1.T
            + net.bias_ih_l1
            + above @ net.weight_hh_l1.T
            + net.bias_hh_l1
        )
        torch.testing.assert_close(logits[:, step], model.output(above), atol=1e-5, rtol=1e-4)
