"""A run that forgets is the run whose weights it ends with; stopped or longer, it stays so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import headwater as hw
from headwater.experiments.tasks.drift import Drifting
from headwater.experiments.tasks.synthetic import Synthetic

pytest.importorskip("river", reason="ADWIN is an extra: pip install headwater[drift]")

ROUNDS = 120
TASK = Drifting(Synthetic(samples=4000), at=0.5)


@pytest.fixture(scope="module")
def streams() -> hw.Federation:
    return TASK.split(0.2, ROUNDS, 0).final


def learn(streams: hw.Federation, strategy: hw.Strategy, **more: object) -> hw.Run:
    settings = {"rounds": ROUNDS, "local_steps": 2, "learning_rate": 0.3, "workers": 0, **more}
    return hw.simulate(TASK.model(0), streams, strategy, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def forgot(streams: hw.Federation) -> hw.Run:
    return learn(streams, hw.Forgetting())


def test_it_hears_of_the_change_and_is_the_better_for_it(
    streams: hw.Federation, forgot: hw.Run
) -> None:
    assert isinstance(forgot.strategy, hw.Forgetting)
    assert len(forgot.strategy.alarms) == 1
    assert 60 < forgot.strategy.alarms[0] < 110
    kept = learn(streams, hw.ByMemory())
    assert forgot.history[-1].accuracy > kept.history[-1].accuracy + 0.1


def test_it_is_the_run_of_the_weights_that_its_ledger_has(
    streams: hw.Federation, forgot: hw.Run
) -> None:
    again = learn(streams, hw.Given(forgot.ledger.weights_at), prequential=True)
    torch.testing.assert_close(again.state.parameters, forgot.state.parameters)
    torch.testing.assert_close(again.state.average, forgot.state.average)
    assert again.state.weight == pytest.approx(1)
    assert forgot.state.weight == pytest.approx(1)
    shares = [[record.share for record in run.history] for run in (again, forgot)]
    np.testing.assert_allclose(shares[0], shares[1])


def test_stopped_before_and_after_the_alarm_it_ends_with_the_same_bits(
    streams: hw.Federation, forgot: hw.Run, tmp_path: Path
) -> None:
    class Enough(hw.Callback):
        def __init__(self, last: int) -> None:
            self.last = last

        def after_round(self, moment: object) -> None:
            if moment.record.round == self.last:  # type: ignore[attr-defined]
                raise KeyboardInterrupt

    alarm = forgot.strategy.alarms[0]  # type: ignore[attr-defined]
    for last in (alarm - 20, alarm - 1, alarm + 5):
        with pytest.raises(KeyboardInterrupt):
            learn(streams, hw.Forgetting(), checkpoint=tmp_path, callbacks=[Enough(last)])
    for _ in range(2):  # the second only reads what is finished
        ended = learn(streams, hw.Forgetting(), checkpoint=tmp_path)
        assert torch.equal(ended.state.parameters, forgot.state.parameters)
        assert torch.equal(ended.state.average, forgot.state.average)
        assert ended.strategy == forgot.strategy
        assert ended.history == forgot.history


def test_a_base_that_leaves_something_open_gets_it(streams: hw.Federation) -> None:
    run = learn(streams, hw.Forgetting(hw.Optimal()), rounds=10)
    assert run.strategy.base.ratio > 0  # type: ignore[attr-defined]


def test_without_river_the_message_says_what_to_install(
    streams: hw.Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "river", None)
    with pytest.raises(hw.InputError, match=r"pip install \"headwater\[drift\]\""):
        learn(streams, hw.Forgetting(), rounds=5)
