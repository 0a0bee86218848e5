"""What a run gives back, on disk."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord

import headwater as hw
from headwater import files
from headwater.flower import read_ledger
from headwater.flower.result import StreamResult


def test_a_saved_model_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    """That the model is there says that the run has ended: a half of one would say so, too."""
    result = StreamResult()
    result.arrays = ArrayRecord({"w": torch.arange(6.0).reshape(2, 3)})
    result.average = ArrayRecord({"w": torch.zeros(2, 3)})

    def full(handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(files.os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            result.save(tmp_path)
    assert list(tmp_path.iterdir()) == []
    result.save(tmp_path)
    with np.load(tmp_path / "model.npz") as model, np.load(tmp_path / "average.npz") as average:
        assert model["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert not average["w"].any()


def test_a_folder_without_a_state_that_can_be_read_is_named(tmp_path):
    with pytest.raises(hw.InputError, match="no run is written down"):
        read_ledger(tmp_path)
    (tmp_path / "state.npz").write_bytes(b"half of a")
    with pytest.raises(hw.InputError, match=r"state\.npz"):
        read_ledger(tmp_path)
