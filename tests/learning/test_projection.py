"""Projections: the nearest allowed point, certified by the variational inequality."""

from __future__ import annotations

import pytest
import torch

import headwater as hw

SETS = {
    "ball": (
        hw.Ball(1.5),
        lambda z: z * (1.5 * torch.rand(len(z), 1, dtype=z.dtype) / z.norm(dim=1, keepdim=True)),
    ),
    "box": (hw.Box(-0.5, 2.0), lambda z: -0.5 + 2.5 * torch.rand_like(z)),
}


@pytest.mark.parametrize("name", SETS)
def test_the_projection_is_the_nearest_point(name):
    """P is nearest to θ in a convex set iff P is in it and ⟨θ − P, z − P⟩ ≤ 0 for all z in it."""
    projection, inside = SETS[name]
    torch.manual_seed(0)
    for scale in (0.1, 1.0, 10.0):
        theta = scale * torch.randn(6, dtype=torch.float64)
        point = projection(theta)
        members = inside(torch.randn(500, 6, dtype=torch.float64))
        assert ((members - point) @ (theta - point)).max() <= 1e-9
        torch.testing.assert_close(projection(point), point, rtol=1e-15, atol=0)


@pytest.mark.parametrize("name", SETS)
def test_what_is_allowed_stays(name):
    projection, inside = SETS[name]
    torch.manual_seed(1)
    for theta in inside(torch.randn(20, 6, dtype=torch.float64)):
        assert torch.equal(projection(theta), theta)


def test_a_ball_and_a_box_by_hand():
    theta = torch.tensor([3.0, -4.0])
    torch.testing.assert_close(hw.Ball(2.5)(theta), torch.tensor([1.5, -2.0]))
    assert hw.Box(-1, 2)(theta).tolist() == [2, -1]
    assert theta.tolist() == [3, -4]
