"""Fading weights, by hand and by the conformance suite."""

from __future__ import annotations

import numpy as np
import pytest

import headwater as hw
from headwater.errors import InputError
from headwater.ledger.fading import Fading


def test_shares_of_a_round_by_hand() -> None:
    arrivals, memory = [hw.Once(), hw.Constant(1)], [hw.Keep(), hw.Fifo(1)]
    ledger = hw.Ledger.of([2, 4], arrivals, memory, Fading(half_life=2), rounds=4)
    # Round 3: two historical samples of age 2 weigh 1/2 each, the stream's new one weighs 1.
    np.testing.assert_allclose(ledger.client_shares[2], [0.5, 0.5])
    np.testing.assert_allclose(ledger.weights_at(3), [0.5, 0.5, 0, 0, 1, 0])
    # Rounds weigh 2 + 1, 2/√2 + 1, 1 + 1 and 2/√8 + 1.
    totals = np.array([3, 1 + np.sqrt(2), 2, 1 + np.sqrt(0.5)])
    np.testing.assert_allclose(ledger.round_shares, totals / totals.sum())


def test_a_long_half_life_is_to_count_all_in_memory_alike() -> None:
    arrivals, memory = [hw.Once(), hw.Poisson(2)], [hw.Keep(), hw.Reservoir(3)]
    slow = hw.Ledger.of([5, 20], arrivals, memory, Fading(1e9), rounds=8)
    alike = hw.Ledger.of([5, 20], arrivals, memory, hw.ByMemory(), rounds=8)
    np.testing.assert_allclose(slow.client_shares, alike.client_shares, rtol=1e-6)


def test_it_is_a_strategy_like_the_others() -> None:
    hw.check_strategy(Fading(3))


@pytest.mark.parametrize("wrong", [0, -1, np.inf, np.nan, "3", True, None])
def test_what_cannot_be_is_refused(wrong: object) -> None:
    with pytest.raises(InputError, match="half_life"):
        Fading(wrong)  # type: ignore[arg-type]
