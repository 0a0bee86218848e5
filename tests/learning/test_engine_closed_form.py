"""The closed form serves every model that is one linear layer, and none that only looks like it."""

from __future__ import annotations

import pytest
import torch
from small_models import CLASSES, Kind, coin, features, images
from torch import nn

from headwater.experiments.tasks.models import Logistic
from headwater.learning.engines.by_autograd import ByAutograd
from headwater.learning.engines.closed_form import ClosedForm
from headwater.learning.engines.descent import descent_of
from headwater.learning.problem import Problem


class Wrapped(nn.Module):
    """A linear layer and something done to its outputs."""

    def __init__(self, after=lambda output: output, outputs=CLASSES):
        super().__init__()
        self.layer = nn.Linear(5, outputs)
        self.after = after

    def forward(self, x):
        return self.after(self.layer(x))


class Sometimes(Wrapped):
    """Other outputs for larger batches."""

    def forward(self, x):
        return self.layer(x) if len(x) < 4 else 2 * self.layer(x)


class Scaled(nn.Linear):
    """A linear layer by descent, not by deed."""

    def forward(self, input):
        return 2 * super().forward(input)


def hooked():
    model = nn.Linear(5, CLASSES)
    model.register_forward_hook(lambda module, inputs, output: output * 2)
    return model


def frozen():
    model = nn.Linear(5, CLASSES)
    model.bias.requires_grad_(False)
    return model


def flattening():
    return nn.Sequential(nn.Flatten(), nn.Linear(2 * 6 * 6, CLASSES))


ONE_LINEAR = {
    "the layer itself": Kind(lambda: nn.Linear(5, CLASSES)),
    "the house's own logistic regression": Kind(lambda: Logistic(5), y=coin),
    "a column of logits": Kind(lambda: nn.Linear(5, 1), y=coin),
    "images flattened": Kind(flattening, images),
    "in a class of its own": Kind(Wrapped),
    "with an identity and no bias": Kind(
        lambda: nn.Sequential(nn.Identity(), nn.Linear(5, CLASSES, bias=False))
    ),
}
OTHERS = {
    "two layers": Kind(lambda: nn.Sequential(nn.Linear(5, 3), nn.Linear(3, CLASSES))),
    "bounds that are never reached": Kind(lambda: Wrapped(lambda out: out.clamp(-1e30, 1e30))),
    "a rectifier": Kind(lambda: Wrapped(torch.relu)),
    "a scale": Kind(lambda: Wrapped(lambda out: out * 1.0)),
    "a look at the values": Kind(lambda: Wrapped(lambda out: out if out.sum() < 1e30 else -out)),
    "a look at the batch": Kind(Sometimes),
    "classes in another order": Kind(lambda: Wrapped(lambda out: out.flip(1))),
    "a child of the layer": Kind(lambda: Scaled(5, CLASSES)),
    "dropout": Kind(lambda: nn.Sequential(nn.Dropout(0.5), nn.Linear(5, CLASSES))),
    "a hook": Kind(hooked),
    "a frozen bias": Kind(frozen),
}


@pytest.mark.parametrize("name", ONE_LINEAR)
def test_its_gradient_is_autograds(name):
    problem = ONE_LINEAR[name].problem()
    closed, autograd = descent_of(problem), ByAutograd(problem)
    assert type(closed) is ClosedForm
    coefficients = torch.linspace(-1, 2, 24, dtype=torch.float64)
    sums = []
    for descent in (closed, autograd):
        target = torch.ones_like(descent.vector)
        descent.aim(target).add_gradient(problem.x, problem.y, coefficients)
        sums.append(target)
    assert (sums[0] - 1).abs().max() > 0.01
    torch.testing.assert_close(*sums, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", OTHERS)
def test_a_model_that_does_anything_else_is_left_to_autograd(name):
    assert type(descent_of(OTHERS[name].problem())) is ByAutograd


def test_another_loss_or_other_labels_are_left_to_autograd():
    problem = Kind(lambda: nn.Linear(5, 1), y=coin).problem()
    real = Problem(problem.model, problem.x, problem.y.double())
    other = Problem(problem.model, problem.x, problem.y, loss=lambda out, y: (out[:, 0] - y) ** 2)
    assert type(descent_of(real)) is ByAutograd
    assert type(descent_of(other)) is ByAutograd


@pytest.mark.parametrize("kind", [Kind(lambda: Logistic(5), y=coin), Kind(flattening, images)])
def test_the_model_may_be_the_target_itself(kind):
    """A step of SGD in place: θ ← θ − η g(θ), with g taken at the old θ."""
    problem = kind.problem()
    for descent in (descent_of(problem), ByAutograd(problem)):
        before = descent.vector.clone()
        change = torch.zeros_like(before)
        weights = torch.full((24,), -0.3, dtype=torch.float64)
        descent.aim(change).add_gradient(problem.x, problem.y, weights)
        descent.aim(descent.vector).add_gradient(problem.x, problem.y, weights)
        torch.testing.assert_close(descent.vector, before + change, rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", [descent_of, ByAutograd])
def test_aims_of_one_descent_do_not_mix(make):
    """Each adds to its own target, in whatever order they are used."""
    problem = Kind(lambda: nn.Linear(5, CLASSES), features).problem()
    descent = make(problem)
    one, two = torch.zeros_like(descent.vector), torch.zeros_like(descent.vector)
    aims = descent.aim(one), descent.aim(two)
    ones = torch.ones(24, dtype=torch.float64)
    for aim, times in ((aims[0], 1), (aims[1], 2), (aims[0], 1)):
        for _ in range(times):
            aim.add_gradient(problem.x, problem.y, ones)
    assert one.abs().max() > 0.01
    torch.testing.assert_close(one, two, rtol=0, atol=1e-12)
