"""Scenarios: the grammar, what they change, and what follows from hand."""

import numpy as np
import pytest

from headwater import InputError
from headwater.fleet import Device, Fleet, Scenario, what_if
from headwater.fleet.change import Change
from headwater.fleet.what_if import AS_IT_IS
from headwater.planner import minimise

FLEET = Fleet.of(
    [
        Device("server", 500, False),
        Device("sensor", 800, True, 8, 16, count=4),
        Device("camera", 1600, True, 16, 16),
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
    assert left.rows("camera").tolist() == [1]


def test_names_may_have_colons_and_equal_signs():
    fleet = Fleet.of([Device("a:b=c", 10, True, 1, 2), Device("x", 5, False)])
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
            "no client 'gateway' in this fleet; there are: server, sensor, camera",
        ),
        ("capacity:gateway=2x", "no client 'gateway'"),
        ("capacity:server=2x", "client 'server' is historical"),
        ("rate:server=2x", "client 'server' is historical"),
        (
            "rate:camera=2x",
            "client 'camera' would get 32 samples per round and can keep 16.*rate=2x,capacity=2x",
        ),
        ("capacity:camera=8", "would get 16 samples per round and can keep 8"),
    ],
)
def test_mistakes(text, words):
    with pytest.raises(InputError, match=words):
        after(text)


def test_nobody_is_left():
    with pytest.raises(InputError, match="nobody would be left"):
        after("leave=server,leave=sensor,leave=camera")
    with pytest.raises(InputError, match="no historical clients"):
        after("leave=server,samples=2x")
    with pytest.raises(InputError, match="no fresh clients"):
        after("leave=sensor,leave=camera,rate=2x")


EVERY_DEVICE = Fleet.of(
    [
        Device("server", 500, False),
        *(Device(f"cam{k}", 1600, True, 16, 16, kind="camera") for k in range(4)),
        *(Device(f"s{k}", 100 + k, True, 1, 4, kind="sensor") for k in range(7)),
    ]
)


@pytest.mark.parametrize(
    ("text", "column", "cameras", "sensors"),
    [
        ("capacity:camera=2x", "capacity", [32] * 4, [4] * 7),
        ("capacity:sensor=9", "capacity", [16] * 4, [9] * 7),
        ("rate:sensor=2x", "rate", [16] * 4, [2] * 7),
        ("samples:camera=0.5x", "samples", [800] * 4, [100, 101, 102, 103, 104, 105, 106]),
        ("capacity:cam2=64", "capacity", [16, 16, 64, 16], [4] * 7),
        ("count:camera=3x", "count", [3] * 4, [1] * 7),
        ("count:camera=6", "count", [1, 2, 1, 2], [1] * 7),
    ],
)
def test_a_kind_is_addressed_where_every_device_has_a_row(text, column, cameras, sensors):
    changed = getattr(after(text, EVERY_DEVICE), column)
    assert changed[1:5].tolist() == cameras
    assert changed[5:].tolist() == sensors


def test_half_of_a_kind_leaves_evenly():
    left = after("count:sensor=0.5x", EVERY_DEVICE)
    assert list(left.names) == ["server", "cam0", "cam1", "cam2", "cam3", "s2", "s4", "s6"]
    every = after("count=0.5x", EVERY_DEVICE)
    assert list(every.names) == ["server", "cam1", "cam3", "s2", "s4", "s6"]
    assert list(after("count:sensor=1", EVERY_DEVICE).names)[5:] == ["s6"]


def test_a_kind_can_leave_and_its_share_is_that_of_all_its_rows():
    gone = after("leave=camera", EVERY_DEVICE)
    assert all(name.startswith("s") for name in gone.names)
    together = Fleet.of([Device("server", 500, False), Device("camera", 1600, True, 16, 16, 4)])
    apart = Fleet.of(
        [
            Device("server", 500, False),
            *(Device(f"c{k}", 1600, True, 16, 16, kind="camera") for k in range(4)),
        ]
    )
    for text in ("capacity:camera=2x", "leave=camera", "count:camera=2"):
        one = judge(text, fleet=together)[1]
        many = judge(text, fleet=apart)[1]
        assert many.named["camera"] == pytest.approx(one.named["camera"], rel=1e-9)
        assert many.total == pytest.approx(one.total, rel=1e-9)


def test_a_name_of_both_a_row_and_a_kind():
    fleet = Fleet.of(
        [Device("cam", 9, True, 1, 1, kind="cam"), Device("b", 9, True, 1, 1, kind="cam")]
    )
    with pytest.raises(InputError, match="'cam' is the name of a client and of a kind of 2"):
        after("capacity:cam=2x", fleet)
    alone = Fleet.of([Device("cam", 9, True, 1, 1, kind="cam"), Device("b", 9, False)])
    assert after("capacity:cam=2x", alone).capacity.tolist() == [2, 0]


def test_an_unknown_name_lists_clients_and_kinds():
    with pytest.raises(InputError, match=r"there are: server, cam0, .*; kinds: camera, sensor"):
        after("leave=nobody", EVERY_DEVICE)


def test_names_may_have_commas():
    fleet = Fleet.of([Device("cam, left", 10, True, 1, 2), Device("x, rate", 5, False)])
    changed = after("capacity:cam, left=4x, leave=x, rate", fleet)
    assert changed.capacity.tolist() == [8]


@pytest.mark.parametrize("text", ["capacity=1e16", "samples=1e300x", "rate=1e15x", "count=1e15x"])
def test_more_than_can_be_counted(text):
    with pytest.raises(InputError, match="is more than"):
        after(text)


def test_slow_streams_stay_streams():
    for factor in ("1e-12", "1e-300"):
        slow = after(f"rate={factor}x")
        assert (slow.rate[slow.fresh] > 0).all()
        assert judge(f"rate={factor}x")[1].total > 0


def judge(*texts, ratio=0.1, fleet=FLEET):
    return what_if(fleet, [Scenario.parse(text) for text in texts], ratio, rounds=100)


def test_as_it_is_by_hand():
    """v = 1/b − 1/N with b the rate (camera); twice the memory: half the noise but for the ends of
    the run."""
    now, double = judge(
        "capacity:camera=2x",
        fleet=Fleet.of([Device("server", 400, False), Device("camera", 1600, True, 16, 16)]),
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
    assert double.named["camera"] == pytest.approx((1 - now.historical, 1 - double.historical))


def test_directions():
    now, memory, stream, gone, twice, history = judge(
        "capacity=4x", "rate=2x,capacity=2x", "leave=camera", "count=4x", "samples=4x", ratio=0.02
    )
    assert memory.total < now.total
    assert memory.historical < now.historical  # calmer streams deserve more
    assert stream.total < now.total
    assert gone.total > now.total
    assert gone.named == {"camera": (pytest.approx(now_share(now)), 0.0)}
    assert twice.total < now.total
    assert history.total < now.total
    assert history.historical > now.historical


def now_share(now):
    """The camera's share as it is, from another scenario that names it without changing
    anything."""
    (_, same) = judge("capacity:camera=1x", ratio=0.02)
    assert (same.historical, same.total) == (now.historical, now.total)
    return same.named["camera"][1]


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
    assert Scenario.parse("leave=a,capacity:a=1,rate:b=2").names == ["a", "b"]


def test_prices_are_those_of_the_fleet_as_it_is():
    """c1 has √(M − M_hist): what another number of fresh clients does must not come from the
    unit."""
    alone = Fleet.of([Device("server", 500, False), Device("camera", 1600, True, 16, 16, count=4)])
    now, fewer = judge("count:camera=1", fleet=alone, ratio=0.3)
    noise, ratio = np.array([0.0, 1 / 16 - 1 / 1600]), 0.3 * (6900 / 2100) ** 0.5
    assert fewer.total == pytest.approx(minimise(noise / 4, [500, 1600], ratio).value)
    assert now.total == pytest.approx(minimise(noise / 16, [500, 6400], 0.3).value)
