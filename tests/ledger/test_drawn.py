"""What is drawn: by enumeration, by going through the rounds, and over batches really drawn."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_federations import settings_of_a_ledger

import headwater as hw
from headwater.ledger.client_terms import ClientTerms
from headwater.ledger.drawing import Drawing
from headwater.ledger.moments import ByRounds
from headwater.ledger.orders import LocalWork


def ledger_of(setting, drawing, seed=0):
    """A ledger with random fixed weights, some of them zero."""
    holdings = replace(setting.holdings(), drawing=drawing)
    weights = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 3.0], len(holdings.enter))
    held = [weights[holdings.held(t)].any() for t in range(1, setting.rounds + 1)]
    assume(all(held))
    return hw.Ledger.weigh(holdings, hw.Given(weights))


DRAWINGS = st.builds(Drawing, st.integers(1, 3), st.one_of(st.none(), st.integers(1, 5)))


@settings(max_examples=150, deadline=None)
@given(settings_of_a_ledger(), DRAWINGS, st.integers(0, 99))
def test_one_pass_over_the_samples_equals_going_through_the_rounds(setting, drawing, seed):
    ledger = ledger_of(setting, drawing, seed)
    by_rounds = ByRounds(ledger.rounds, ledger.round_shares, drawing)
    fast = ledger.drawn.moments
    assert type(fast).__name__ == "BySpells"
    for name in ("samples", "clients", "redrawn"):
        assert getattr(fast, name) == pytest.approx(getattr(by_rounds, name), rel=1e-12, abs=1e-15)


@settings(max_examples=50, deadline=None)
@given(settings_of_a_ledger(), st.integers(1, 3), st.integers(0, 99))
def test_full_batches_and_everybody_draw_what_is_held(setting, steps, seed):
    for batch in (None, 99):
        ledger = ledger_of(setting, Drawing(steps, batch), seed)
        assert ledger.drawn.effective_samples == pytest.approx(ledger.effective_samples, rel=1e-14)
        assert ledger.drawn.variability == pytest.approx(ledger.variability, rel=1e-12, abs=1e-15)
        assert ledger.drawn.drift == pytest.approx(ledger.drift, rel=1e-12, abs=1e-15)


def every_outcome(held, batch, steps):
    """How often each sample is drawn, for every sequence of batches; all are equally likely."""
    batches = list(combinations(range(held), min(batch, held)))
    for sequence in product(batches, repeat=steps):
        yield [sum(i in b for b in sequence) for i in range(held)]


@pytest.mark.parametrize(
    ("held", "batch", "steps"), [(1, 1, 2), (2, 1, 1), (3, 1, 3), (3, 2, 2), (4, 2, 2), (4, 3, 1)]
)
@pytest.mark.parametrize("equal", [True, False])
def test_every_outcome_of_a_clients_draws_in_fractions(held, batch, steps, equal):
    """Two rounds of one client: E Σ a_i², E (Σ a_i)² and E Σ p̂_i² over all batches there are."""
    weights = [Fraction(1)] * held if equal else [Fraction(1, 3 + 2 * i) for i in range(held)]
    shares = [w / sum(weights) for w in weights]
    outcomes = [
        [
            Fraction(held, min(batch, held)) * n * s / steps
            for n, s in zip(often, shares, strict=True)
        ]
        for often in every_outcome(held, batch, steps)
    ]
    samples = sum(sum(a * a for a in outcome) for outcome in outcomes) / len(outcomes)
    clients = sum(sum(outcome) ** 2 for outcome in outcomes) / len(outcomes)
    variance = samples - sum(s * s for s in shares)
    ledger = hw.Ledger.of(
        [held],
        hw.Once(),
        hw.Keep(),
        hw.Given([float(w) for w in weights]),
        rounds=2,
        drawing=Drawing(steps, batch),
    )
    assert ledger.drawn.moments.samples == pytest.approx(float(samples), rel=1e-14)
    assert ledger.drawn.moments.clients == pytest.approx(float(clients), rel=1e-14)
    assert ledger.drawn.variability == pytest.approx(float(variance), rel=1e-12, abs=1e-15)
    mean_square = sum(s * s for s in shares) + variance / 2
    assert 1 / ledger.drawn.effective_samples == pytest.approx(float(mean_square), rel=1e-14)


def test_equal_weights_have_the_noise_of_so_many_samples():
    """1/B = 1/n + (1/K − 1/n)/E for n = 12, K = 3, E = 2: 1/12 + 1/8."""
    ledger = hw.Ledger.of(
        [12], hw.Once(), hw.Keep(), hw.ByMemory(), rounds=5, drawing=Drawing(2, 3)
    )
    assert ledger.drawn.variability == pytest.approx(1 / 8)
    assert ledger.drawn.drift == 0
    assert 1 / ledger.drawn.effective_samples == pytest.approx(1 / 12 + 1 / 8 / 5)


def realised(ledger, seeds):
    """Shares a_i(t) of runs really drawn: a row for each round, a table for each seed."""
    drawing = ledger.holdings.drawing
    table = np.zeros((seeds, ledger.holdings.rounds, len(ledger.holdings.enter)))
    for seed in range(seeds):
        work = LocalWork(drawing.local_steps, drawing.batch_size, drawing.participation, seed)
        for orders in work.follow(ledger):
            share = np.repeat(orders.shares, np.diff(orders.offsets)) / len(orders.samples)
            for step in range(len(orders.samples)):
                row = table[seed, orders.number - 1]
                np.add.at(row, orders.samples[step], share * orders.coefficients[step])
    return table


def within_three_errors(values, expected):
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert abs(values.mean() - expected) <= 3 * error + 1e-12, (values.mean(), expected, error)


FEDERATION = (
    [9, 40, 30, 12, 6],
    [hw.Once(), hw.Constant(4), hw.Poisson(3), hw.Window(2, 5, hw.Constant(2)), hw.Once()],
    [hw.Keep(), hw.Fifo(7), hw.Reservoir(6), hw.Keep(), hw.Keep()],
)


@pytest.mark.parametrize(
    "drawing",
    [
        Drawing(1, 3),
        Drawing(3, 2),
        Drawing(1, None, 2),
        Drawing(2, 3, 3),
        Drawing(2, 4, 0.5),
        Drawing(1, 1, 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("varying", [False, True])
def test_the_figures_are_those_of_batches_really_drawn(drawing, varying):
    holdings = replace(hw.unroll(*FEDERATION, rounds=8, seed=3), drawing=drawing)
    weights = np.random.default_rng(1).uniform(0.2, 3, len(holdings.enter))
    given = hw.Given((lambda t: weights ** (0.3 * t)) if varying else weights)
    ledger = hw.Ledger.weigh(holdings, given)
    a = realised(ledger, seeds=500)
    q, p = ledger.round_shares, ledger.sample_shares
    within_three_errors(np.square(a - p).sum(axis=2) @ q, ledger.drawn.variability)
    over_run = np.einsum("t,sti->si", q, a)
    within_three_errors(np.square(over_run).sum(axis=1), 1 / ledger.drawn.effective_samples)
    u = np.add.reduceat(a, holdings.offsets[:-1], axis=2)
    within_three_errors(np.square(u - ledger.importance).sum(axis=2) @ q, ledger.drawn.drift)


# ------------------------------------------------------------------ one number per client


@settings(max_examples=100, deadline=None)
@given(settings_of_a_ledger(), DRAWINGS, st.lists(st.integers(1, 9), min_size=4, max_size=4))
def test_clients_terms_add_up_to_the_figures_whatever_rounds_count(setting, drawing, parts):
    """Σ p_m² v_m is the variability and Σ p_m²/N_m(drawn) is 1/N_eff, for any arrivals at all."""
    holdings = replace(setting.holdings(), drawing=drawing)
    assume((holdings.collected > 0).all())
    assume(all(holdings.held(t).any() for t in range(1, setting.rounds + 1)))
    p = np.array(parts[: holdings.clients]) / sum(parts[: holdings.clients])
    ledger = hw.Ledger.weigh(holdings, hw.Importance(p))
    terms = ClientTerms(holdings)
    noise = terms.noise(ledger.round_shares)
    assert np.square(p) @ noise == pytest.approx(ledger.drawn.variability, rel=1e-9, abs=1e-12)
    inverse = np.square(p) @ (1 / terms.drawable)
    assert inverse == pytest.approx(1 / ledger.drawn.effective_samples, rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(settings_of_a_ledger(), DRAWINGS)
def test_a_client_alone_has_the_noise_and_absence_of_its_own_ledger(setting, drawing):
    """One client at a time, every round counting the same, from a table of its shares."""
    holdings = replace(setting.holdings(), drawing=drawing)
    noise, absence = ClientTerms(holdings).noise(), ClientTerms(holdings).absence
    rounds = range(1, setting.rounds + 1)
    stays = np.maximum(holdings.rounds_held, 1)
    for m, count in enumerate(holdings.collected):
        mine = holdings.client == m
        if not count:
            assert noise[m] == absence[m] == 0
            continue
        share = [(holdings.held(t) & mine) / (count * stays) for t in rounds]
        redraw = [drawing.redraws(np.array([np.count_nonzero(s)]).astype(float))[0] for s in share]
        squares = sum(np.square(s).sum() * (1 + r) for s, r in zip(share, redraw, strict=True))
        assert noise[m] == pytest.approx(setting.rounds * squares - 1 / count, abs=1e-12)
        whole = sum(s.sum() ** 2 for s in share)
        assert absence[m] == pytest.approx(setting.rounds * whole - 1, abs=1e-12)


def test_a_client_that_is_there_for_a_fraction_of_the_rounds():
    holdings = hw.unroll([5, 5], [hw.Once(), hw.Window(3, 4)], hw.Keep(), rounds=10)
    np.testing.assert_allclose(ClientTerms(holdings).absence, [0, 10 / 2 - 1], atol=1e-12)


def test_visitors_bring_what_they_draw():
    """One round, 60 samples held, 3 steps of 2 drawn: 1/N = 1/60 + (30 − 1)/3/60."""
    holdings = hw.unroll([60], hw.Window(2, 2), hw.Keep(), rounds=9)
    terms = ClientTerms(replace(holdings, drawing=Drawing(3, 2)))
    assert 1 / terms.drawable[0] == pytest.approx(1 / 60 + 29 / 3 / 60)


def test_optimal_counts_what_can_be_drawn():
    """Visitors who hold much and draw little count less than by what they hold."""
    windows = [hw.Window(t, t) for t in range(1, 11)]
    holdings = hw.unroll([40, *[200] * 10], [hw.Once(), *windows], hw.Keep(), rounds=10)
    shares = [
        hw.Ledger.weigh(replace(holdings, drawing=drawing), hw.Optimal(ratio=0.5)).importance[0]
        for drawing in (Drawing(), Drawing(1, 4))
    ]
    assert shares[0] < 0.1 < 0.3 < shares[1]
