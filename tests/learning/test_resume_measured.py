"""Runs whose strategy is measured before the first round: stopped, they do not measure again."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import headwater as hw
from headwater.learning import checkpoint, simulation
from headwater.learning.estimation import resolution

OPEN = {
    "remembered": hw.Remembered(),
    "online": hw.RememberedOnline(),
    "optimal": hw.Optimal(),
    "target": hw.Target(alpha=[0.2, 0.3, 0.5]),
    "forgetting": hw.Forgetting(hw.Remembered()),
}


def clients():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 4))
    y = (x[:, 0] + rng.normal(size=90) > 0).astype(int)
    return [
        hw.Client(x[:20], y[:20]),
        hw.Client(x[20:40], y[20:40]),
        hw.Client(x[40:], y[40:], hw.Constant(4), hw.Fifo(8)),
    ]


def run(strategy, folder=None, stop_after=None, **other):
    def progress(record):
        if record.round == stop_after:
            raise KeyboardInterrupt

    torch.manual_seed(0)
    given = {"rounds": 12, "learning_rate": 0.3, "workers": 0, "checkpoint": folder} | other
    return hw.simulate(nn.Linear(4, 2), clients(), strategy, progress=progress, **given)


@pytest.fixture
def every_round(monkeypatch):
    monkeypatch.setattr(checkpoint, "_SECONDS", 0.0)


@pytest.fixture
def threads():
    """Sets the number of threads; another number adds sums in another order."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def another_measurement(monkeypatch):
    """Whatever is measured from now on has another last digit, as with other threads."""

    def resolve(strategy, *others):
        found = resolution.resolve(strategy, *others)
        rule = found.base if isinstance(found, hw.Forgetting) else found
        for name in ("ratio", "heterogeneity"):
            if getattr(rule, name, None):
                object.__setattr__(rule, name, getattr(rule, name) * (1 + 1e-9))
        return found

    def change():
        monkeypatch.setattr(simulation, "resolve", resolve)

    return change


@pytest.mark.parametrize("name", OPEN)
def test_a_stopped_run_takes_the_numbers_it_had(tmp_path, every_round, monkeypatch, name):
    whole = run(OPEN[name])
    with pytest.raises(KeyboardInterrupt):
        run(OPEN[name], tmp_path, stop_after=5)

    def again(*others):
        raise AssertionError("measured twice")

    monkeypatch.setattr(simulation, "resolve", again)
    rest = run(OPEN[name], tmp_path)
    assert torch.equal(rest.state.parameters, whole.state.parameters)
    assert rest.state.weight == whole.state.weight
    assert rest.history == whole.history
    assert repr(rest.strategy) == repr(whole.strategy)


def test_killed_before_the_first_state_is_due(tmp_path, monkeypatch):
    """No round has been written, but what was measured has."""
    monkeypatch.setattr(checkpoint.Checkpoint, "rescue", lambda self: None)
    with pytest.raises(KeyboardInterrupt):
        run(hw.Remembered(), tmp_path, stop_after=1)
    monkeypatch.setattr(simulation, "resolve", None)
    assert run(hw.Remembered(), tmp_path).history == run_again(monkeypatch).history


def run_again(monkeypatch):
    monkeypatch.undo()
    return run(hw.Remembered())


def test_other_last_digits_do_not_refuse_the_folder(tmp_path, every_round, another_measurement):
    whole = run(hw.Remembered())
    with pytest.raises(KeyboardInterrupt):
        run(hw.Remembered(), tmp_path, stop_after=5)
    another_measurement()
    assert run(hw.Remembered()).strategy != whole.strategy
    assert run(hw.Remembered(), tmp_path).history == whole.history


def test_with_other_threads(tmp_path, every_round, threads):
    threads(1)
    with pytest.raises(KeyboardInterrupt):
        run(hw.Remembered(), tmp_path, stop_after=5)
    threads(2)
    assert len(run(hw.Remembered(), tmp_path).history) == 12


@pytest.mark.parametrize(
    "other", [hw.Remembered(0.3), hw.Remembered(target=[0.2, 0.3, 0.5]), hw.Optimal()]
)
def test_numbers_are_those_of_one_strategy(tmp_path, every_round, other):
    """Another strategy is measured by itself, and found to be another."""
    run(hw.Remembered(), tmp_path)
    with pytest.raises(hw.InputError, match="the streams or the strategy"):
        run(other, tmp_path)


def test_numbers_are_those_of_one_model(tmp_path, monkeypatch):
    """A folder with nothing but what was measured is refused for another model, too."""
    monkeypatch.setattr(checkpoint.Checkpoint, "rescue", lambda self: None)
    with pytest.raises(KeyboardInterrupt):
        run(hw.Remembered(), tmp_path, stop_after=1)
    with pytest.raises(hw.InputError, match="the model"):
        hw.simulate(nn.Linear(4, 3), clients(), hw.Remembered(), 12, checkpoint=tmp_path)


def test_nothing_is_measured_and_nothing_kept_where_all_is_given(tmp_path):
    given = hw.Remembered(0.25, 0.1)
    run(given, tmp_path)
    assert checkpoint.read_measured(tmp_path) is None
    assert checkpoint.read_measured(tmp_path / "nowhere") is None
