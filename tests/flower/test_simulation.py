"""The example app, unchanged, in Flower's own simulation: clients are Ray's, not SuperNodes'."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack

import numpy as np
import pytest
from flower_bench import APP
from test_same_answer import simulated, vector
from toy_node import Served, toy

import headwater as hw
from headwater.flower.deployment.processes import end, members
from headwater.flower.deployment.superlink import SuperLink, free_port

pytest.importorskip("ray", reason="Flower's simulation is not here: pip install 'flwr[simulation]'")
pytestmark = pytest.mark.xdist_group("flower")


def test_the_example_app_gives_the_simulators_model(tmp_path, monkeypatch):
    link = SuperLink(tmp_path, free_port(), None)
    # Ray's folder has sockets in it, whose paths must be short; it sends no statistics
    ray = tempfile.TemporaryDirectory(prefix="hw", ignore_cleanup_errors=True)
    monkeypatch.setenv("RAY_TMPDIR", ray.name)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with ExitStack() as stack:
        stack.enter_context(ray)
        for m in range(3):
            (tmp_path / str(m)).mkdir()
            stack.enter_context(Served(toy(m), tmp_path / str(m) / "node.sock"))
        stack.callback(end, tmp_path)
        part = link.start("--simulation")
        found = run_app(link, part)
    assert not members(tmp_path)
    run = simulated(hw.Uniform(), 3, local_steps=2, batch_size=3, learning_rate=0.2, seed=5)
    np.testing.assert_allclose(found, vector(run.model), atol=1e-5)


def run_app(link, part):
    """The parameters with which a run ends."""
    settings = {
        "sockets": f"{link.folder}/{{}}/node.sock",
        "checkpoint": f"{link.folder}/run",
        "min-clients": 3,
        "num-rounds": 3,
        "local-steps": 2,
        "batch-size": 3,
        "learning-rate": 0.2,
        "seed": 5,
    }
    # one actor is all three clients: each would take a core, and seconds to start
    size = "num-supernodes=3 client-resources-num-cpus=1 init-args-num-cpus=1"
    link.submit(APP, settings, "--federation-config", size)
    model, deadline = link.folder / "run" / "model.npz", time.monotonic() + 600
    while not model.exists():
        if not part.alive or time.monotonic() > deadline:
            raise AssertionError(part.log.read_text(errors="replace")[-6000:])
        time.sleep(0.2)
    with np.load(model) as saved:
        return np.concatenate([saved[name].reshape(-1) for name in saved.files])
