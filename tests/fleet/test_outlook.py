"""What a run makes of a fleet, against the ledger of every single client."""

from dataclasses import replace

import numpy as np
import pytest

import headwater.fleet.outlook as outlook_module
from headwater import Constant, Fifo, Keep, Ledger, Once, Poisson, Uniform, unroll
from headwater.fleet import Device, Fleet, Outlook
from headwater.fleet.outlook import _distinct
from headwater.fleet.streams import stream_holdings
from headwater.ledger.client_terms import ClientTerms, client_noise
from headwater.ledger.drawing import Drawing

KINDS = [
    Device("server", 500, False),
    Device("sensor", 800, True, 8, 16, count=3),
    Device("slow", 40, True, 0.4, 5, count=2),
    Device("short", 30, True, 4, 9),  # its stream ends in round 8
    Device("long", 10_000, True, 3, 3, count=2),  # most of it never arrives
]


def every_client(kinds, rounds):
    each = [kind for kind in kinds for _ in range(kind.count)]
    arrivals = [Constant(k.rate) if k.fresh else Once() for k in each]
    memory = [Fifo(k.capacity) if k.fresh else Keep() for k in each]
    return unroll([k.samples for k in each], arrivals, memory, rounds)


@pytest.mark.parametrize("rounds", [1, 7, 100])
@pytest.mark.parametrize("drawing", [Drawing(), Drawing(1, 4), Drawing(5, 3), Drawing(2, 10_000)])
def test_is_that_of_every_single_client(rounds, drawing):
    outlook = Outlook.of(Fleet.of(KINDS), rounds, drawing)
    holdings = replace(every_client(KINDS, rounds), drawing=drawing)
    repeat = outlook.count.astype(int)
    every = outlook.terms.taken(np.repeat(np.arange(len(repeat)), repeat))
    terms = ClientTerms(holdings)
    assert every.samples.tolist() == holdings.collected.tolist()
    assert every.fresh.tolist() == (~holdings.historical).tolist()
    np.testing.assert_allclose(every.noise, terms.noise(), rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(every.drawable, terms.drawable, rtol=1e-12)
    np.testing.assert_allclose(every.absence, terms.absence, rtol=1e-9, atol=1e-12)
    held = np.array(
        [
            sum(holdings.held(t)[holdings.client == m].sum() for t in range(1, rounds + 1))
            for m in range(9)
        ]
    )
    np.testing.assert_allclose(every.memory, held / rounds)


@pytest.mark.parametrize("rounds", [1, 3, 50])
def test_streams_are_unrolled_as_their_rules_say(rounds):
    """Every rate and capacity of a grid, against the ledger's own unrolling of each client."""
    cases = [
        (samples, rate, capacity)
        for samples in (1, 2, 7, 30)
        for rate in (0.07, 0.1, 0.3, 0.5, 1.0, 2.5, 3.0, 7.0)
        for capacity in (1, 2, 3, 7, 8, 100)
        if capacity >= np.ceil(rate)
    ]
    samples, rate, capacity = (np.array(column) for column in zip(*cases, strict=True))
    found = stream_holdings(samples, rate.astype(float), capacity, rounds)
    arrivals = [Constant(r) for r in rate.tolist()]
    expected = unroll(samples, arrivals, [Fifo(c) for c in capacity.tolist()], rounds)
    assert (found.enter == expected.enter).all()
    assert (found.leave == expected.leave).all()
    assert (found.offsets == expected.offsets).all()


def test_rows_that_are_alike_are_found_whatever_their_order():
    rng = np.random.default_rng(0)
    rows = rng.integers(1, 4, (3, 200)).astype(float)
    alike, member = _distinct(*rows)
    assert (alike[:, member] == rows).all()
    assert alike.shape[1] == len({tuple(column) for column in rows.T})


def test_pieces_change_nothing(monkeypatch):
    whole = Outlook.of(Fleet.of(KINDS), 50)
    monkeypatch.setattr(
        outlook_module, "_pieces", lambda samples: (slice(k, k + 1) for k in range(len(samples)))
    )
    apart = Outlook.of(Fleet.of(KINDS), 50)
    assert (whole.terms.noise == apart.terms.noise).all()
    assert (whole.terms.memory == apart.terms.memory).all()


def test_long_streams_in_units_of_several_samples(monkeypatch):
    exact = Outlook.of(Fleet.of(KINDS[1:]), 100)
    monkeypatch.setattr(outlook_module, "_AT_ONCE", 200)
    rough = Outlook.of(Fleet.of(KINDS[1:]), 100)
    np.testing.assert_allclose(
        rough.terms.noise[0], exact.terms.noise[0], rtol=1e-9
    )  # 800, 8 and 16 in units of 4
    np.testing.assert_allclose(rough.terms.memory[0], exact.terms.memory[0], rtol=1e-9)
    np.testing.assert_allclose(rough.terms.samples, exact.terms.samples, rtol=0.01)


def test_batches_of_long_streams_are_drawn_from_their_mean_memory(monkeypatch):
    drawing = Drawing(local_steps=2, batch_size=3)
    exact = Outlook.of(Fleet.of(KINDS[1:2]), 100, drawing).terms
    monkeypatch.setattr(outlook_module, "_AT_ONCE", 200)
    rough = Outlook.of(Fleet.of(KINDS[1:2]), 100, drawing).terms
    np.testing.assert_allclose(rough.noise, exact.noise, rtol=0.01)
    np.testing.assert_allclose(rough.drawable, exact.drawable, rtol=0.01)


def test_a_billion_samples():
    fleet = Fleet.of([Device("old", 10**9, False), Device("new", 10**9, True, 10**7, 10**7)])
    outlook = Outlook.of(fleet, 100)
    assert outlook.terms.noise[1] == pytest.approx(1e-7 - 1e-9, rel=1e-3)
    assert outlook.total == pytest.approx(2e9)


def test_of_any_holdings():
    holdings = unroll(
        [4, 30, 30], [Once(), Poisson(2.0), Constant(1)], [Keep(), Fifo(6), Keep()], 10, seed=1
    )
    outlook = Outlook.of_holdings(holdings)
    assert outlook.terms.noise.tolist() == client_noise(holdings).tolist()
    assert outlook.fresh.tolist() == [False, True, True]
    assert outlook.total == pytest.approx(Ledger.weigh(holdings, Uniform()).effective_samples)


def test_of_a_federations_clients():
    fleet = Fleet.of_clients(np.array([5, 40]), [Once(), Constant(4)], [Keep(), Fifo(8)])
    assert list(fleet.names) == ["0", "1"]
    assert (fleet.rate[1], fleet.capacity[1], fleet.fresh.tolist()) == (4, 8, [False, True])
