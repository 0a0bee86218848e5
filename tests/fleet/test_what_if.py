"""Scenarios: the grammar, what they change, and what follows from hand."""

import numpy as np
import pytest

from headwater import InputError
from headwater.fleet import Fleet, Scenario, what_if
from headwater.fleet.fleet import Kind
from headwater.fleet.what_if import AS_IT_IS, Change
from headwater.planner import minimise

FLEET = Fleet.of(
    [
        Kind("server", 500, False),
        Kind("sensor", 800, True, 8, 16, count=4),
        Kind("camera", 1600, True, 16, 16),
    ]
)


def after(text, fleet=FLEET):
    return Scenario.parse(text).apply(fleet)


def columns(fleet):
    return {n: getattr(fleet, n).tolist() for n in ("samples", "rate", "capacity", "count")}


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("capacity=2x", {"capacity": [0, 32, 32]}),
        ("capacity=64", {"capacity": [0, 64, 64]}),
        ("capacity:camera=1.5x", {"capacity": [0, 16, 24]}),
        ("rate=0.5x", {"rate": [0, 4, 8], "samples": [500, 400, 800]}),
        ("rate:sensor=12", {"rate": [0, 12, 16], "samples": [500, 1200, 1600]}),
        (
            "rate=2x, capacity=2x",
            {"rate": [0, 16, 32], "capacity": [0, 32, 32], "samples": [500, 1600, 3200]},
        ),
        ("samples=3x", {"samples": [1500, 800, 1600]}),
        ("samples:camera=100", {"samples": [500, 800, 100]}),
        ("count=0.5x", {"count": [1, 2, 1]}),
        ("count:server=3", {"count": [3, 4, 1]}),
        ("rate=0.3x,rate:camera=16", {"rate": [0, 2.4, 16], "samples": [500, 240, 1600]}),
    ],
)
def test_what_a_scenario_changes(text, changed):
    assert columns(after(text)) == {**columns(FLEET), **changed}


def test_leaving():
    left = after("leave=sensor")
    assert list(left.names) == ["server", "camera"]
    assert left.rate.tolist() == [0, 16]
    assert left.row("camera") == 1


def test_names_may_have_colons_and_equal_signs():
    fleet = Fleet.of([Kind("a:b=c", 10, True, 1, 2), Kind("x", 5, False)])
    assert after("capacity:a:b=c=4x", fleet).capacity[0] == 8
    assert list(after("leave=a:b=c", fleet).names) == ["x"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("memory=2x", "what-if 'memory=2x' is not understood; write capacity=2x"),
        ("capacity", "not understood"),
        ("capacity=", "not understood"),
        ("", "what-if '' is not understood"),
        ("leave=", "not understood"),
        ("capacity=2x,", "not understood"),
        ("capacity=many", "'many' must be a number above 0"),
        ("capacity=0", "'0' must be a number above 0"),
        ("rate=-2x", "'-2' must be a number above 0"),
        ("rate=nanx", "must be a number above 0"),
        ("rate=inf", "must be a number above 0"),
        (
            "leave=gateway",
            "no client 'gateway' in this federation; there are: server, sensor, camera",
        ),
        ("capacity:gateway=2x", "no client 'gateway'"),
        ("capacity:server=2x", "client 'server' is historical"),
        ("rate:server=2x", "client 'server' is historical"),
        (
            "rate:camera=2x",
            "client 'camera' would get 32 samples a round and can keep 16.*rate=2x,capacity=2x",
        ),
        ("capacity:camera=8", "would get 16 samples a round and can keep 8"),
    ],
)
def test_mistakes(text, words):
    with pytest.raises(InputError, match=words):
        after(text)


def test_nobody_is_left():
    with pytest.raises(InputError, match="only one"):
        after("leave=server,leave=sensor,leave=camera")
    with pytest.raises(InputError, match="no historical clients"):
        after("leave=server,samples=2x")
    with pytest.raises(InputError, match="no fresh clients"):
        after("leave=sensor,leave=camera,rate=2x")


def judge(*texts, ratio=0.1, fleet=FLEET):
    return what_if(fleet, [Scenario.parse(text) for text in texts], ratio, rounds=100)


def test_as_it_is_by_hand():
    """v = 1/b − 1/N with b the rate (camera); twice the memory: half the noise but for the ends of
    the run."""
    now, double = judge(
        "capacity:camera=2x",
        fleet=Fleet.of([Kind("server", 400, False), Kind("camera", 1600, True, 16, 16)]),
    )
    noise = 1 / 16 - 1 / 1600
    by_hand = minimise([0.0, noise], [400, 1600], 0.1)
    assert now.scenario == AS_IT_IS
    assert (now.historical, now.total) == pytest.approx(
        (by_hand.historical, by_hand.value), rel=1e-9
    )
    half = minimise(
        [0.0, 1 / 32 * 1.01 - 1 / 1600], [400, 1600], 0.1
    )  # the last samples are held for one round only
    assert double.historical == pytest.approx(half.historical, rel=1e-2)
    assert double.clients["camera"] == pytest.approx((1 - now.historical, 1 - double.historical))


def test_directions():
    now, memory, stream, gone, twice, history = judge(
        "capacity=4x", "rate=2x,capacity=2x", "leave=camera", "count=4x", "samples=4x", ratio=0.02
    )
    assert memory.total < now.total
    assert memory.historical < now.historical  # calmer streams deserve more
    assert stream.total < now.total
    assert gone.total > now.total
    assert gone.clients == {"camera": (pytest.approx(now_share(now)), 0.0)}
    assert twice.total < now.total
    assert history.total < now.total
    assert history.historical > now.historical


def now_share(now):
    """The camera's share as it is, from another scenario that names it without changing
    anything."""
    (_, same) = judge("capacity:camera=1x", ratio=0.02)
    assert (same.historical, same.total) == (now.historical, now.total)
    return same.clients["camera"][1]


def test_twice_everything_is_cheaper_by_root_two_in_samples_and_noise():
    """Twice the clients of every kind: N_eff doubles, Σ v p² halves; both terms fall by √2."""
    now, double = judge("count=2x,count:server=2x")
    assert double.effective_samples == pytest.approx(2 * now.effective_samples)
    assert double.total == pytest.approx(now.total / 2**0.5)
    assert double.historical == pytest.approx(now.historical)


def test_changes_are_parsed_once_and_for_all():
    assert Scenario.parse(" rate=2x , capacity:a=3 ").changes == [
        Change("rate", None, 2.0, True),
        Change("capacity", "a", 3.0, False),
    ]
    assert Scenario.parse("leave=a,capacity:a=1,rate:b=2").clients == ["a", "b"]


def test_prices_are_those_of_the_fleet_as_it_is():
    """c1 has √(M − M_hist): what another number of fresh clients does must not come from the
    unit."""
    alone = Fleet.of([Kind("server", 500, False), Kind("camera", 1600, True, 16, 16, count=4)])
    now, fewer = judge("count:camera=1", fleet=alone, ratio=0.3)
    noise, ratio = np.array([0.0, 1 / 16 - 1 / 1600]), 0.3 * (6900 / 2100) ** 0.5
    assert fewer.total == pytest.approx(minimise(noise / 4, [500, 1600], ratio).value)
    assert now.total == pytest.approx(minimise(noise / 16, [500, 6400], 0.3).value)
