"""Features that stay bytes give the bits of features laid out as floats, and their name."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ranks import together
from torch import distributed, nn

import headwater as hw
from headwater.learning.engines import Ranks
from headwater.learning.identity import digest
from headwater.learning.stored import Stored

BYTES = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (60, 5), np.uint8))


def scaled(rows):
    return rows.float() / 255 - 0.5


def federation(x):
    part = hw.Part(x, torch.arange(60) % 2, np.arange(7) * 10, np.arange(60)[::-1].copy())
    tests = hw.Part(x, torch.arange(60) % 2, np.array([0, 60]))
    return hw.Federation(part, [hw.Constant(2)] * 6, [hw.Fifo(4)] * 6, tests)


def learned(x, **settings):
    torch.manual_seed(0)
    model = settings.pop("model", nn.Linear(5, 2))
    return hw.simulate(model, federation(x), rounds=5, local_steps=2, batch_size=3, **settings)


def test_rows_are_those_of_the_tensor():
    stored, laid_out = Stored(BYTES, scaled), scaled(BYTES)
    some = torch.tensor([7, 3, 3])
    assert (stored.shape, stored.dtype, len(stored)) == (laid_out.shape, laid_out.dtype, 60)
    for found, wanted in [
        (stored[4], laid_out[4]),
        (stored[5:9], laid_out[5:9]),
        (stored[some], laid_out[some]),
        (stored.index_select(0, some), laid_out.index_select(0, some)),
    ]:
        assert torch.equal(found, wanted)


def test_images_that_are_picked_lie_in_one_piece_as_those_of_a_tensor():
    """The layout decides by which kernel a convolution is computed, and so the last bits."""

    def channels_last(rows):
        return rows.permute(0, 2, 3, 1).float().contiguous().permute(0, 3, 1, 2)

    images = torch.randint(0, 256, (9, 3, 4, 4), dtype=torch.uint8)
    stored, laid_out, some = Stored(images, channels_last), channels_last(images), torch.arange(3)
    assert stored[2:5].stride() == laid_out[2:5].stride()
    picked = laid_out.index_select(0, some)
    assert stored.index_select(0, some).stride() == picked.stride()


def test_the_name_of_the_data_is_that_of_the_tensor(monkeypatch):
    monkeypatch.setattr("headwater.learning.identity._PIECE", 64)  # in several pieces
    stored, laid_out = Stored(BYTES, scaled), scaled(BYTES)
    assert digest(federation(stored).train) == digest(federation(laid_out).train)
    assert digest(stored) != digest(Stored(BYTES.flip(0), scaled))


@pytest.mark.parametrize("settings", [{}, {"model": nn.Linear(5, 2).double()}, {"workers": 2}])
def test_a_run_has_the_same_bits(settings):
    one, two = learned(Stored(BYTES, scaled), **settings), learned(scaled(BYTES), **settings)
    assert torch.equal(one.state.parameters, two.state.parameters)
    assert one.history == two.history


def test_a_stopped_run_of_laid_out_samples_goes_on_with_stored_ones(tmp_path):
    before = learned(scaled(BYTES), checkpoint=tmp_path)
    again = learned(Stored(BYTES, scaled), checkpoint=tmp_path)
    assert torch.equal(before.state.parameters, again.state.parameters)


@pytest.mark.skipif(not distributed.is_gloo_available(), reason="PyTorch without gloo")
def test_a_rank_scales_the_samples_of_its_own_clients_only():
    """Beside the few that are looked at before the first round."""
    clients, each = 6, 20
    kept = torch.arange(clients * each, dtype=torch.uint8).reshape(-1, 1).repeat(1, 5)
    real_moves = Ranks.moves

    def rank(_):
        in_a_round, seen = [False], set()

        def prepare(rows):
            if in_a_round[0]:
                seen.update((rows[:, 0] // each).tolist())
            return scaled(rows)

        def moves(*given):
            in_a_round[0] = True
            return real_moves(*given)

        part = hw.Part(Stored(kept, prepare), torch.arange(120) % 2, np.arange(clients + 1) * each)
        people = hw.Federation(part, [hw.Once()] * clients, [hw.Keep()] * clients)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Ranks, "moves", moves)
            hw.simulate(nn.Linear(5, 2), people, rounds=3, local_steps=2, workers=0)
        return seen

    assert together(3, rank) == [{0, 1}, {2, 3}, {4, 5}]
