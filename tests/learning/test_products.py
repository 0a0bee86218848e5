"""Matrix products by one library or the other: the same numbers, and the same bits every time."""

from __future__ import annotations

import pytest
import torch

from headwater.learning.engines import products
from headwater.learning.engines.products import add_times, plus_times, times

SIZES = [(1, 1, 1), (3, 5, 7), (32, 784, 1024), (384, 300, 62), (1600, 8, 256)]


@pytest.fixture(params=["MKL", "oneDNN"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the two, whatever this processor would take."""
    if request.param == "oneDNN" and not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this PyTorch has no oneDNN")
    monkeypatch.setattr(products, "WITH_AVX512", request.param == "oneDNN")
    return str(request.param)


def close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("sizes", SIZES)
def test_products_are_those_in_double_precision(sizes: tuple[int, int, int]) -> None:
    rows, inputs, outputs = sizes
    torch.manual_seed(0)
    x, w, b = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(outputs)
    g, base = torch.randn(rows, outputs), torch.randn(rows, outputs)
    close(times(x, w, b), x.double() @ w.double().T + b.double())
    close(times(g, w.T), g.double() @ w.double())
    wanted = base.double() + x.double() @ w.double().T
    plus_times(base, x, w, out=base)
    close(base, wanted)
    target = torch.ones(outputs, inputs)
    add_times(target, g, x)
    close(target, 1 + g.double().T @ x.double())


@pytest.mark.usefixtures("library")
def test_rows_may_have_more_than_one_index_and_lie_apart() -> None:
    x, w = torch.randn(6, 50, 400)[::2, ::5], torch.randn(900, 400)
    close(times(x, w), x.double() @ w.double().T)
    assert times(x, w).shape == (3, 10, 900)


@pytest.mark.usefixtures("library")
def test_the_same_bits_every_time() -> None:
    x, w = torch.randn(333, 500), torch.randn(444, 500)
    first = times(x, w)
    assert all(torch.equal(first, times(x, w)) for _ in range(3))


def test_double_precision_and_small_products_stay_with_mkl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "WITH_AVX512", True)
    large = torch.randn(512, 512)
    assert products._by_onednn(large, large)
    assert not products._by_onednn(large.double(), large.double())
    assert not products._by_onednn(large[:2, :8], large[:4, :8])
