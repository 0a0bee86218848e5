"""What a run makes of a fleet, against the ledger of every single client."""

import numpy as np
import pytest

import headwater.fleet.outlook as outlook_module
from headwater import Constant, Fifo, Keep, Ledger, Once, Poisson, Uniform, unroll
from headwater.fleet import Fleet, Outlook
from headwater.fleet.fleet import Kind
from headwater.ledger.client_terms import client_noise

KINDS = [
    Kind("server", 500, False),
    Kind("sensor", 800, True, 8, 16, count=3),
    Kind("slow", 40, True, 0.4, 5, count=2),
    Kind("short", 30, True, 4, 9),  # its stream ends in round 8
    Kind("long", 10_000, True, 3, 3, count=2),  # most of it never arrives
]


def every_client(kinds, rounds):
    each = [kind for kind in kinds for _ in range(kind.count)]
    arrivals = [Constant(k.rate) if k.fresh else Once() for k in each]
    memory = [Fifo(k.capacity) if k.fresh else Keep() for k in each]
    return unroll([k.samples for k in each], arrivals, memory, rounds)


@pytest.mark.parametrize("rounds", [1, 7, 100])
def test_is_that_of_every_single_client(rounds):
    outlook = Outlook.of(Fleet.of(KINDS), rounds)
    holdings = every_client(KINDS, rounds)
    repeat = outlook.count.astype(int)
    assert np.repeat(outlook.samples, repeat).tolist() == holdings.collected.tolist()
    assert np.repeat(outlook.fresh, repeat).tolist() == (~holdings.historical).tolist()
    np.testing.assert_allclose(
        np.repeat(outlook.noise, repeat), client_noise(holdings), rtol=1e-12, atol=1e-15
    )
    held = np.array(
        [
            sum(holdings.held(t)[holdings.client == m].sum() for t in range(1, rounds + 1))
            for m in range(9)
        ]
    )
    np.testing.assert_allclose(np.repeat(outlook.memory, repeat), held / rounds)


def test_pieces_change_nothing(monkeypatch):
    whole = Outlook.of(Fleet.of(KINDS), 50)
    monkeypatch.setattr(
        outlook_module, "_pieces", lambda samples: (slice(k, k + 1) for k in range(len(samples)))
    )
    apart = Outlook.of(Fleet.of(KINDS), 50)
    assert (whole.noise == apart.noise).all()
    assert (whole.memory == apart.memory).all()


def test_long_streams_in_units_of_several_samples(monkeypatch):
    exact = Outlook.of(Fleet.of(KINDS[1:]), 100)
    monkeypatch.setattr(outlook_module, "_SAMPLES", 200)
    rough = Outlook.of(Fleet.of(KINDS[1:]), 100)
    np.testing.assert_allclose(
        rough.noise[0], exact.noise[0], rtol=1e-9
    )  # 800, 8 and 16 in units of 4
    np.testing.assert_allclose(rough.memory[0], exact.memory[0], rtol=1e-9)
    np.testing.assert_allclose(rough.samples, exact.samples, rtol=0.01)


def test_a_billion_samples():
    fleet = Fleet.of([Kind("old", 10**9, False), Kind("new", 10**9, True, 10**7, 10**7)])
    outlook = Outlook.of(fleet, 100)
    assert outlook.noise[1] == pytest.approx(1e-7 - 1e-9, rel=1e-3)
    assert outlook.total == pytest.approx(2e9)


def test_of_any_holdings():
    holdings = unroll(
        [4, 30, 30], [Once(), Poisson(2.0), Constant(1)], [Keep(), Fifo(6), Keep()], 10, seed=1
    )
    outlook = Outlook.of_holdings(holdings)
    assert outlook.noise.tolist() == client_noise(holdings).tolist()
    assert outlook.fresh.tolist() == [False, True, True]
    assert outlook.total == pytest.approx(Ledger.weigh(holdings, Uniform()).effective_samples)


def test_of_a_federations_clients():
    fleet = Fleet.of_clients(np.array([5, 40]), [Once(), Constant(4)], [Keep(), Fifo(8)])
    assert list(fleet.names) == ["0", "1"]
    assert (fleet.rate[1], fleet.capacity[1], fleet.fresh.tolist()) == (4, 8, [False, True])
