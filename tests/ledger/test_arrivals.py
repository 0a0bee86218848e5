"""Arrival processes: counts by the round, against closed forms and distributions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import headwater as hw
from headwater.ledger.arrivals import FOREVER
from headwater.ledger.samples import Samples


def rounds_of(process, count, client=0, seed=0):
    return process.rounds(Samples.of(np.array([client]), np.array([count]), seed))


def counts_by_round(process, count, rounds, client=0, seed=0):
    """b(t): how many samples come in rounds 1 … rounds."""
    return np.bincount(
        np.minimum(rounds_of(process, count, client, seed), rounds + 1), minlength=rounds + 2
    )[1:-1]


def test_once_is_before_the_first_round():
    assert counts_by_round(hw.Once(), 5, 3).tolist() == [5, 0, 0]


@settings(max_examples=200, deadline=None)
@given(st.decimals(min_value="0.01", max_value="20", places=2), st.integers(1, 400))
def test_constant_arrivals_never_fall_behind_the_rate(rate, count):
    """N(t) = min(count, ⌈rate·t⌉) with the rate taken as the decimal number that was written."""
    rounds = 1 + math.floor((count - 1) / Fraction(rate))
    arrived = np.cumsum(counts_by_round(hw.Constant(float(rate)), count, rounds))
    exact = [min(count, math.ceil(Fraction(rate) * t)) for t in range(1, rounds + 1)]
    assert arrived.tolist() == exact


@pytest.mark.parametrize("rate", [1, 3, 8])
def test_a_whole_rate_brings_as_many_every_round(rate):
    assert set(counts_by_round(hw.Constant(rate), 40 * rate, 40).tolist()) == {rate}


def test_half_a_sample_a_round_is_one_every_second_round():
    assert counts_by_round(hw.Constant(0.5), 3, 6).tolist() == [1, 0, 1, 0, 1, 0]


def test_a_very_slow_rate_never_comes_within_a_run():
    assert rounds_of(hw.Constant(1e-300), 3).tolist()[0] == 1
    assert (rounds_of(hw.Constant(1e-300), 3)[1:] >= 2**30).all()


@pytest.mark.parametrize("rate", [0.3, 1.0, 4.5])
def test_poisson_counts_have_the_poisson_distribution(rate):
    """20,000 rounds of 400 clients: chi-square over the counts, mean, variance, and no memory
    between rounds."""
    rounds, clients = 50, 400
    samples = int(rate * rounds + 12 * math.sqrt(rate * rounds) + 20)
    process = hw.Poisson(rate)
    table = np.array(
        [counts_by_round(process, samples, rounds, client=m, seed=11) for m in range(clients)]
    )
    counts = table.ravel()
    assert counts.mean() == pytest.approx(rate, abs=4 * math.sqrt(rate / counts.size))
    spread = math.sqrt(
        (rate + 2 * rate**2) / counts.size
    )  # of the variance's estimate, Poisson's fourth moment
    assert counts.var() == pytest.approx(rate, abs=4 * spread)
    top = int(stats.poisson.ppf(0.999, rate))
    expected = stats.poisson.pmf(np.arange(top + 1), rate) * counts.size
    expected = np.append(expected, counts.size - expected.sum())
    observed = np.bincount(np.minimum(counts, top + 1), minlength=top + 2)
    assert stats.chisquare(observed, expected).pvalue > 1e-3
    neighbours = np.corrcoef(table[:, :-1].ravel(), table[:, 1:].ravel())[0, 1]
    assert abs(neighbours) < 4 / math.sqrt(table[:, 1:].size)


@pytest.mark.parametrize("rate", [1e-7, 1e-4, 0.5, 50.0])
def test_poisson_rounds_do_not_run_backwards_however_slow(rate):
    rounds = rounds_of(hw.Poisson(rate), 5000)
    assert (rounds >= 1).all()
    assert (np.diff(rounds) >= 0).all()


def test_a_trace_is_repeated_and_then_nothing_comes():
    process = hw.Trace([2, 0, 3])
    assert counts_by_round(process, 9, 5).tolist() == [2, 0, 3, 0, 0]
    assert (rounds_of(process, 9)[5:] == FOREVER).all()
    assert counts_by_round(process, 4, 5).tolist() == [2, 0, 2, 0, 0]


@pytest.mark.parametrize("counts", [[1, 2], (1, 2), np.array([1, 2], np.uint8)])
def test_a_trace_takes_any_row_of_whole_numbers(counts):
    assert hw.Trace(counts) == hw.Trace([1, 2])
    assert hash(hw.Trace(counts)) == hash(hw.Trace([1, 2]))


def test_a_window_moves_the_process_inside_and_ends_it():
    assert counts_by_round(hw.Window(3, 5, hw.Constant(2)), 100, 9).tolist() == [
        0,
        0,
        2,
        2,
        2,
        0,
        0,
        0,
        0,
    ]
    assert counts_by_round(hw.Window(2, 2), 4, 3).tolist() == [0, 4, 0]


@settings(max_examples=60, deadline=None)
@given(st.floats(0.05, 8), st.integers(1, 60))
def test_what_surely_arrives_in_a_round_is_enough(rate, count):
    process = hw.Constant(rate)
    assert counts_by_round(process, count, 2000).max() == process.largest_batch(count)
