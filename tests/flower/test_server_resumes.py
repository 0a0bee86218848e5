"""A server that dies goes on from its checkpoint: no round lost, none applied twice."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest
from test_same_answer import initial

import headwater as hw
from headwater.flower import StreamFedAvg, read_ledger
from headwater.flower.checkpoint import Checkpoint
from headwater.flower.journal import Journal
from headwater.flower.messages import flatten
from headwater.flower.settings import Settings
from headwater.learning import identity


class KilledError(Exception):
    pass


def run(fleet, folder, rounds=5, **more):
    settings = {"local_steps": 2, "batch_size": 3, "seed": 4, "min_clients": 3} | more
    return StreamFedAvg(checkpoint=folder, **settings).start(fleet, initial(), rounds)


def restart(fleet):
    """Nodes keep their memory and their last replies; Flower's numbers of messages begin anew."""
    fleet.sent.clear()
    fleet._mail.clear()


@pytest.mark.parametrize("moment", ["journal", "state", "asking"])
def test_a_killed_server_ends_with_the_same_bits(fleet, tmp_path, monkeypatch, moment):
    undisturbed = run(fleet, tmp_path / "a")
    restart(fleet)
    places = {
        "journal": ("headwater.flower.checkpoint.replace", 4),  # the line is there, the state not
        "state": ("headwater.flower.session.Session._entry", 3),
        "asking": ("headwater.flower.gathering.Gathering._ask", 3),
    }
    with monkeypatch.context() as patch:
        name, count = places[moment]
        _die_at(patch, name, count)
        with pytest.raises(KilledError):
            run(fleet, tmp_path / "b")
    restart(fleet)
    resumed = run(fleet, tmp_path / "b")
    np.testing.assert_array_equal(flatten(resumed.arrays), flatten(undisturbed.arrays))
    np.testing.assert_array_equal(flatten(resumed.average), flatten(undisturbed.average))
    rounds = [entry.round for entry in Journal(tmp_path / "b" / "rounds.jsonl").read()]
    assert rounds == [1, 2, 3, 4, 5]


def _die_at(patch, name, count):
    from importlib import import_module

    parts = name.split(".")
    owner = import_module(".".join(parts[:3]))
    for part in parts[3:-1]:
        owner = getattr(owner, part)
    real, calls = getattr(owner, parts[-1]), []

    def dies(*arguments, **more):
        calls.append(1)
        if len(calls) == count:
            raise KilledError
        return real(*arguments, **more)

    patch.setattr(owner, parts[-1], dies)


def test_a_run_that_is_over_is_not_done_again(fleet, tmp_path):
    first = run(fleet, tmp_path / "a")
    restart(fleet)
    again = run(fleet, tmp_path / "a")
    assert not [m for m in fleet.sent if m.metadata.message_type == "train"]
    np.testing.assert_array_equal(flatten(again.arrays), flatten(first.arrays))


def test_other_settings_are_refused(fleet, tmp_path):
    run(fleet, tmp_path / "a")
    with pytest.raises(hw.InputError, match="other settings"):
        run(fleet, tmp_path / "a", local_steps=1)


def schedule(last):
    return lambda round: last if round == 50 else 0.1


class Shift:
    """A projection with a number in it, which its name does not show."""

    def __init__(self, by):
        self.by = by

    def __call__(self, parameters):
        return parameters + self.by

    def __repr__(self):
        return "Shift()"


@pytest.mark.parametrize(
    "change",
    [
        {"strategy": hw.ByMemory()},
        {"strategy": hw.Given(np.arange(5000.0) % 7)},
        {"batch_size": 3},
        {"learning_rate": schedule(0.2)},
        {"projection": Shift(1.0)},
        {"projection": hw.Ball(2.0)},
        {"participation": 2},
        {"catch_up": 2.0},
        {"norm_limit": 5.0},
    ],
)
def test_whatever_decides_the_numbers_is_part_of_a_runs_name(change):
    common = {
        "strategy": hw.Given(np.arange(5000.0) % 5),
        "learning_rate": schedule(0.3),
        "projection": Shift(0.0),
    }
    name = Settings(**common).fingerprint(8)
    assert name == Settings(**common, deadline=5.0, quorum=0.1).fingerprint(8)
    assert name != Settings(**common | change).fingerprint(8)
    assert name != Settings(**common).fingerprint(9)


def test_an_upgrade_does_not_end_a_run(monkeypatch):
    settings = Settings(hw.Optimal(0.15), projection=hw.Ball(3.0))
    name = settings.fingerprint(8)
    monkeypatch.setattr("headwater.__version__", "99.0")
    identity._package.cache_clear()
    assert settings.fingerprint(8) == name
    identity._package.cache_clear()


@pytest.mark.parametrize(
    ("strategy", "streams", "free"),
    [
        (hw.Uniform(), "live_fleet", False),
        (hw.ByMemory(), "live_fleet", True),
        (hw.RememberedOnline(), "live_fleet", True),
        (hw.ByMemory(), "fleet", False),  # a ledger of declared arrivals ends with its run
    ],
)
def test_a_run_that_looks_ahead_has_its_number_of_rounds_for_good(
    request, tmp_path, strategy, streams, free
):
    fleet = request.getfixturevalue(streams)
    run(fleet, tmp_path / "a", 3, strategy=strategy)
    restart(fleet)
    if free:
        assert run(fleet, tmp_path / "a", 5, strategy=strategy).rounds == 5
    else:
        with pytest.raises(hw.InputError, match="num_rounds=3, now 5"):
            run(fleet, tmp_path / "a", 5, strategy=strategy)


def test_two_servers_do_not_share_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("headwater.flower.checkpoint._PATIENCE", 0.1)
    with (
        Checkpoint(tmp_path, "x"),
        pytest.raises(hw.InputError, match="another server"),
        Checkpoint(tmp_path, "x"),
    ):
        pass


def test_a_line_that_was_changed_is_found_and_a_torn_one_dropped(fleet, tmp_path):
    run(fleet, tmp_path / "a", rounds=3)
    path = tmp_path / "a" / "rounds.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    assert [entry.round for entry in Journal(path).read()] == [1, 2]
    path.write_bytes(whole.replace(b'"round": 2', b'"round": 9'))
    with pytest.raises(hw.InputError, match="line 2: the checksum"):
        Journal(path).read()


def test_an_endless_run_stops_cleanly_at_a_signal(live_fleet, tmp_path):
    seen = []

    def progress(entry):
        seen.append(entry.round)
        if entry.round == 4:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    strategy = StreamFedAvg(min_clients=3, checkpoint=tmp_path / "a")
    result = strategy.start(live_fleet, initial(), None, progress=progress)
    assert seen == [1, 2, 3, 4]
    assert result.rounds == 4
    assert signal.getsignal(signal.SIGTERM) is before
    again = strategy.start(live_fleet, initial(), None, progress=_until(6))
    assert again.rounds == 6
    assert read_ledger(tmp_path / "a").holdings.rounds == 6


def _until(last):
    def progress(entry):
        if entry.round == last:
            os.kill(os.getpid(), signal.SIGINT)

    return progress


def test_a_signal_in_the_middle_of_a_round_gives_the_round_up(live_fleet, tmp_path):
    lost = []

    def lose(message):
        """The third round's messages get lost, and while it waits a signal comes."""
        third = message.metadata.group_id == "3"
        if third and not lost:
            lost.append(message)  # one signal only: a later one would find another handler
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
        return third

    live_fleet.lose = lose
    strategy = StreamFedAvg(min_clients=3, checkpoint=tmp_path / "a")
    result = strategy.start(live_fleet, initial(), None)
    assert result.rounds == 2


def test_a_run_that_goes_on_keeps_the_plan_that_it_began_with(fleet, tmp_path):
    """A newcomer has no part in a plan that was made before it came, killed server or not."""
    newcomer = fleet.nodes.pop(98)

    def comes(entry):
        fleet.nodes[98] = newcomer

    def learn(folder, rounds=6):
        fleet.nodes.pop(98, None)
        for toy in fleet.toys:
            toy.replies.clear()
        strategy = StreamFedAvg(min_clients=2, checkpoint=folder)
        return strategy.start(fleet, initial(), rounds, progress=comes)

    undisturbed = learn(tmp_path / "a")
    restart(fleet)
    fleet.nodes.pop(98, None)
    for toy in fleet.toys:
        toy.replies.clear()

    def dies(entry):
        comes(entry)
        if entry.round == 4:
            raise KilledError

    with pytest.raises(KilledError):
        StreamFedAvg(min_clients=2, checkpoint=tmp_path / "b").start(
            fleet, initial(), 6, progress=dies
        )
    restart(fleet)
    resumed = StreamFedAvg(min_clients=2, checkpoint=tmp_path / "b").start(fleet, initial(), 6)
    planned = [entry.planned for entry in Journal(tmp_path / "b" / "rounds.jsonl").read()]
    assert {len(shares) for shares in planned} == {2}
    np.testing.assert_array_equal(flatten(resumed.arrays), flatten(undisturbed.arrays))
