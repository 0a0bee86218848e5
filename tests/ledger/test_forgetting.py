"""Forgetting, by hand; and when the detector speaks up."""

from __future__ import annotations

import numpy as np
import pytest

import headwater as hw
from headwater.errors import InputError
from headwater.ledger.forgetting import Detector

ARRIVALS, MEMORY = [hw.Once(), hw.Constant(1)], [hw.Keep(), hw.Fifo(2)]


def ledger(strategy: hw.Strategy) -> hw.Ledger:
    return hw.Ledger.of([2, 6], ARRIVALS, MEMORY, strategy, rounds=6)


def test_from_an_alarm_on_only_what_has_arrived_since_counts() -> None:
    found = ledger(hw.Forgetting(alarms=(4,)))
    # Round 3 holds the archive and arrivals 2 and 3; round 4 forgets all but the fourth arrival,
    # which takes over the weight of the four that are held.
    np.testing.assert_allclose(found.weights_at(3), [1, 1, 0, 1, 1, 0, 0, 0])
    np.testing.assert_allclose(found.weights_at(4), [0, 0, 0, 0, 0, 4, 0, 0])
    np.testing.assert_allclose(found.weights_at(5), [0, 0, 0, 0, 0, 2, 2, 0])
    np.testing.assert_allclose(found.client_shares[[2, 3]], [[0.5, 0.5], [0, 1]])


@pytest.mark.parametrize("base", [hw.ByMemory(), hw.Uniform(), hw.Fading(2)])
def test_rounds_keep_their_share_of_the_run(base: hw.Strategy) -> None:
    forgetful = ledger(hw.Forgetting(base, alarms=(3, 5)))
    np.testing.assert_allclose(forgetful.round_shares, ledger(base).round_shares)


def test_old_samples_count_where_there_are_no_newer_ones() -> None:
    pause = hw.Ledger.of(
        [3], hw.Trace([1, 1, 0, 0, 1]), hw.Fifo(3), hw.Forgetting(alarms=(3,)), rounds=5
    )
    np.testing.assert_allclose(pause.weights_at(4), [1, 1, 0])
    np.testing.assert_allclose(pause.weights_at(5), [0, 0, 3])


def test_without_an_alarm_it_is_its_base_and_a_strategy_like_the_others() -> None:
    assert hw.Forgetting(hw.Uniform()).weights(ledger(hw.Uniform()).holdings).shape == (8,)
    hw.check_strategy(hw.Forgetting())
    hw.check_strategy(hw.Forgetting(alarms=(3,)))


def test_errors_that_grow_are_heard_and_errors_that_fall_are_not() -> None:
    pytest.importorskip("river", reason="ADWIN is an extra: pip install headwater[drift]")
    noise = 0.05 * np.random.default_rng(0).normal(size=200)
    step = np.repeat([0.2, 0.8], 100)
    heard = _alarms(step + noise)
    assert len(heard) == 1
    assert 100 < heard[0] < 130
    assert _alarms(step[::-1] + noise) == []


def _alarms(errors: np.ndarray) -> list[int]:
    detector = Detector(0.002)
    return [t for t, error in enumerate(errors) if detector.hears(float(error))]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("base", hw.Uniform), ("base", 3), ("delta", 0), ("delta", 1.0), ("delta", "x")],
)
def test_what_cannot_be_is_refused(name: str, wrong: object) -> None:
    with pytest.raises(InputError, match=rf"Forgetting\({name}\)"):
        hw.Forgetting(**{name: wrong})  # type: ignore[arg-type]
