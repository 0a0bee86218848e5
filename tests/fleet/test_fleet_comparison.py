"""The strategies side by side, against the ledger, the minimiser for single clients, and the
paper's numbers."""

import numpy as np
import pytest

import headwater as hw
from headwater import (
    Constant,
    Fifo,
    InputError,
    Keep,
    Ledger,
    Once,
    Optimal,
    bound,
    optimal_importance,
)
from headwater.fleet import Device, Fleet, Outlook, compare
from headwater.fleet.recommendation import recommend, remember
from headwater.ledger.client_terms import ClientTerms
from headwater.ledger.drawing import Drawing
from headwater.planner import remembered_error

FLEET = [
    Device("server", 500, False),
    Device("archive", 60, False, count=3),
    Device("sensor", 800, True, 8, 8, count=4),
    Device("camera", 1600, True, 16, 16),
]
ROUNDS = 100


def outlook(kinds=None, drawing=None):
    return Outlook.of(Fleet.of(kinds or FLEET), ROUNDS, drawing)


def ledger(strategy, kinds=None, drawing=None):
    each = [kind for kind in kinds or FLEET for _ in range(kind.count)]
    arrivals = [Constant(k.rate) if k.fresh else Once() for k in each]
    memory = [Fifo(k.capacity) if k.fresh else Keep() for k in each]
    return Ledger.of([k.samples for k in each], arrivals, memory, strategy, ROUNDS, drawing=drawing)


def paper_case(fraction, samples=50_000):
    old, new = round(samples * fraction / 25), round(samples * (1 - fraction) / 25)
    return [
        Device("old", old, False, count=25),
        Device("new", new, True, count=25, rate=new / ROUNDS, capacity=new),
    ]


@pytest.mark.parametrize(
    ("ratio", "fraction", "share"),
    [
        (0.150, 0.05, 0.1162),
        (0.150, 0.2, 0.4522),
        (0.150, 0.5, 0.9472),
        (0.284, 0.05, 0.0839),
        (0.284, 0.2, 0.3174),
        (0.284, 0.5, 0.6881),
        (0.001, 0.05, 1.0000),
        (0.001, 0.2, 1.0000),
        (0.001, 0.5, 1.0000),
    ],
)
def test_the_papers_nine_shares(ratio, fraction, share):
    assert compare(outlook(paper_case(fraction)), ratio).best.historical == pytest.approx(
        share, abs=5e-5
    )


STRATEGIES = {
    "uniform": hw.Uniform(),
    "historical": hw.Historical(),
    "fresh": hw.Fresh(),
    "memory": hw.ByMemory(),
    "optimal": Optimal(0.3),
    "sharp": Optimal(0.3, bound="sharp"),
    "remembered": hw.Remembered(0.25, 0.0),
}


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("drawing", [None, Drawing(local_steps=2, batch_size=5)])
def test_is_what_the_ledger_of_the_strategy_says(name, drawing):
    run = ledger(STRATEGIES[name], drawing=drawing)
    papers, sharp = (compare(outlook(drawing=drawing), 0.3, b)[name] for b in ("paper", "sharp"))
    assert papers.historical == pytest.approx(run.historical_share, abs=1e-9)
    assert papers.effective_samples == pytest.approx(run.drawn.effective_samples, rel=1e-9)
    # c1 = σ0·D·√5 with 5 fresh clients
    assert sharp.noise == pytest.approx((run.drawn.variability / 5) ** 0.5, abs=1e-9)
    each = ClientTerms(run.holdings).drawable
    fresh = ~run.holdings.historical
    assert papers.total == pytest.approx(
        bound(run.importance, each, fresh, c1=1.0, c2=0.3), rel=1e-9
    )


def test_a_group_is_as_many_clients():
    each = [
        Device(f"{k.name}{j}", k.samples, k.fresh, k.rate, k.capacity)
        for k in FLEET
        for j in range(k.count)
    ]
    grouped, apart = compare(outlook(), 0.3, "sharp"), compare(outlook(each), 0.3, "sharp")
    for p in grouped.prospects:
        q = apart[p.strategy]
        assert (p.historical, p.noise, p.few_samples) == pytest.approx(
            (q.historical, q.noise, q.few_samples), rel=1e-12
        )
    parts = np.add.reduceat(apart.best.importance, [0, 1, 4, 8])
    np.testing.assert_allclose(grouped.best.importance, parts, rtol=1e-10)


@pytest.mark.parametrize("heterogeneity", [0.0, 0.02, 3.0])
@pytest.mark.parametrize("horizon", [0.25, 7, 1.0])
@pytest.mark.parametrize("drawing", [None, Drawing(2, 5)])
def test_rows_are_remembered_as_their_clients_are(heterogeneity, horizon, drawing):
    strategy = hw.Remembered(horizon, heterogeneity)
    found = compare(outlook(drawing=drawing), 0.3, remembered=strategy)
    run = ledger(strategy, drawing=drawing)
    repeat = found.outlook.count.astype(int)
    each = np.repeat(found["remembered"].importance / repeat, repeat)
    np.testing.assert_allclose(each, run.importance, rtol=1e-9)
    terms = ClientTerms(run.holdings)
    for p in found.prospects:
        each = np.repeat(p.importance / repeat, repeat)
        by_client = remembered_error(
            each,
            run.holdings.collected,
            terms.noise(),
            strategy.rounds(ROUNDS),
            heterogeneity,
            absence=terms.absence,
        )
        assert p.remembered_error == pytest.approx(by_client, rel=1e-9)
    least = min(p.remembered_error for p in found.prospects)
    assert found["remembered"].remembered_error == pytest.approx(least, rel=1e-12)


def test_the_other_rule_in_words():
    words = remember(compare(outlook(), 0.3, remembered=hw.Remembered(40, 0.02)))
    assert "(40 of 100 rounds, clients differ by 0.02)" in words
    assert "as Remembered(horizon=40, heterogeneity=0.02) does." in words


def test_a_hundred_million_clients_cost_what_two_rows_do():
    found = compare(
        outlook([Device("old", 400, False, count=10**8), Device("new", 1600, True, 16, 16, 10**8)]),
        1e-4,
    )
    alone = optimal_importance([400, 1600], [False, True], 1e-4 * 1e4)  # c1 has √(M − M_hist)
    assert found.best.historical == pytest.approx(alone.historical, rel=1e-9)


@pytest.mark.parametrize("kind", ["paper", "sharp"])
def test_the_order_is_that_of_the_bound_and_the_optimum_comes_first(kind):
    for ratio in (0.0, 0.01, 0.1, 0.3, 3.0, 1e6):
        found = compare(outlook(), ratio, kind)
        totals = [p.total for p in found.prospects]
        assert totals == pytest.approx(sorted(totals), rel=1e-8)
        assert found.prospects[0] is found.best
        assert found.best.strategy == {"paper": "optimal", "sharp": "sharp"}[kind]
        assert {p.strategy for p in found.prospects} == set(STRATEGIES)


@pytest.mark.parametrize("kind", ["paper", "sharp"])
def test_where_history_suffices(kind):
    limit = compare(outlook(), 0.3, kind).historical_suffices
    assert compare(outlook(), 0.999 * limit, kind).best.historical == 1
    assert compare(outlook(), 1.001 * limit, kind).best.historical < 1


def test_one_kind_of_client_only():
    streams, archives = compare(outlook(FLEET[2:]), 0.3), compare(outlook(FLEET[:2]), np.inf)
    assert {p.strategy for p in streams.prospects} == {*STRATEGIES} - {"historical"}
    assert {p.strategy for p in archives.prospects} == {*STRATEGIES} - {"fresh"}
    assert streams.historical_suffices is archives.historical_suffices is None
    np.testing.assert_allclose(archives.best.importance, archives["uniform"].importance)
    assert "All 5 clients are fresh" in recommend(streams)
    assert recommend(archives) == "All 4 clients are historical: count them as Uniform() does."


def test_the_recommendation_says_what_is_computed():
    found = compare(outlook(paper_case(0.2)), 0.15)
    words = recommend(found)
    assert "25 historical clients 45.2 %" in words
    assert "25 fresh clients 54.8 %" in words
    gain = 100 * (1 - found.best.total / found["uniform"].total)
    assert f"{gain:.0f} % below that of uniform" in words
    assert "Optimal(ratio=0.15)" in words
    assert 'Optimal(ratio=0.15, bound="sharp")' in recommend(
        compare(outlook(paper_case(0.2)), 0.15, "sharp")
    )
    assert "Learn from the 25 historical clients alone" in recommend(
        compare(outlook(paper_case(0.2)), 0.001)
    )
    assert (
        words.count(".") == words.count("0.15") + words.count("45.2") + words.count("54.8") + 1
    )  # one sentence


@pytest.mark.parametrize(
    ("ratio", "kind", "words"),
    [
        (-1.0, "paper", "ratio"),
        (np.nan, "paper", "ratio"),
        (0.1, "loose", "'paper' or 'sharp'; got 'loose'"),
    ],
)
def test_mistakes(ratio, kind, words):
    with pytest.raises(InputError, match=words):
        compare(outlook(), ratio, kind)
