"""Stopped at any moment and started again, a run ends with the bits of an undisturbed one."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import signal
import threading
import time
import warnings
from dataclasses import asdict

import numpy as np
import pytest
import torch
from torch import nn

import headwater as hw
from headwater import files
from headwater.learning import checkpoint
from headwater.learning.engines import Sequential

ROUNDS = 12


def clients(seed=0, change=None):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(60, 4))
    y = (x[:, 0] > 0).astype(int)
    if change:
        change(x, y)
    test = x[40:], y[40:]
    return [
        hw.Client(x[:8], y[:8], test=test),
        hw.Client(x[8:24], y[8:24], hw.Poisson(1.5), hw.Reservoir(5), test=test),
        hw.Client(x[24:40], y[24:40], hw.Constant(1), hw.Fifo(3), test=test),
    ]


def model(seed=0, drop=0.3):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Dropout(drop), nn.ReLU(), nn.Linear(6, 2))


def hooked():
    changed = model()
    changed[2].register_forward_hook(lambda module, given, answer: 2 * answer)
    return changed


def frozen():
    changed = model()
    changed[1].eval()
    return changed


def run(folder=None, start=None, streams=None, **other):
    """A run with everything in it that is drawn at random."""
    settings = {
        "rounds": ROUNDS,
        "local_steps": 2,
        "batch_size": 2,
        "participation": 2,
        "seed": 3,
        "workers": 0,
        "learning_rate": lambda t: 0.3 / t,
        "test_every": 3,
        "projection": hw.Ball(5.0),
    }
    return hw.simulate(
        start or model(), streams or clients(), checkpoint=folder, **{**settings, **other}
    )


def same(one, two):
    return (
        torch.equal(one.state.parameters, two.state.parameters)
        and torch.equal(one.state.average, two.state.average)
        and one.state.round == two.state.round
        and one.state.weight == two.state.weight
        and one.history == two.history
    )


@pytest.fixture(scope="module")
def undisturbed():
    return run()


@pytest.fixture
def every_round(monkeypatch):
    """The state is written after every round, not every few seconds."""
    monkeypatch.setattr(checkpoint, "_SECONDS", 0.0)


def stop_after(*rounds):
    """Ctrl-C when the record of one of these rounds comes."""
    left = list(rounds)

    def progress(record):
        if left and record.round == left[0]:
            left.pop(0)
            raise KeyboardInterrupt

    return progress


def test_a_run_that_is_not_stopped_is_the_same_with_and_without_a_folder(tmp_path, undisturbed):
    assert same(run(tmp_path), undisturbed)


@pytest.mark.parametrize("round", [1, 2, 7, ROUNDS])
@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_stopped_once(tmp_path, undisturbed, monkeypatch, round, seconds):
    """Ctrl-C keeps every finished round, however long ago the last state was written."""
    monkeypatch.setattr(checkpoint, "_SECONDS", seconds)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, progress=stop_after(round))
    done = []
    assert same(run(tmp_path, progress=done.append), undisturbed)
    assert [record.round for record in done] == list(range(round + 1, ROUNDS + 1))


def test_ctrl_c_within_a_round_keeps_the_rounds_before(tmp_path, undisturbed, monkeypatch):
    moves, count = Sequential.moves, iter(range(1, 100))

    def interrupted(self, *orders):
        if next(count) == 7:
            raise KeyboardInterrupt
        return moves(self, *orders)

    with monkeypatch.context() as patch:
        patch.setattr(Sequential, "moves", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path)
    done = []
    assert same(run(tmp_path, progress=done.append), undisturbed)
    assert done[0].round == 7


def test_stopped_again_and_again(tmp_path, undisturbed, every_round):
    progress = stop_after(1, 2, 3, 5, 9, 10, 12)
    for _ in range(7):
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, progress=progress)
    assert same(run(tmp_path), undisturbed)


def test_killed_between_two_states(tmp_path, undisturbed, monkeypatch):
    """A state now and then: after some rounds, but not after the last ones before the end."""
    clock = iter(range(10_000))
    monkeypatch.setattr(checkpoint, "_SECONDS", 3.5)
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: next(clock))
    with monkeypatch.context() as killed:
        killed.setattr(checkpoint.Checkpoint, "rescue", lambda self: None)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, progress=stop_after(11))
    lines = len((tmp_path / "rounds.jsonl").read_text().splitlines())
    assert 0 < lines < 10
    assert same(run(tmp_path), undisturbed)


def in_a_process(folder, pause):
    """Fork a child that runs to the end unless it is killed; its number."""
    child = os.fork()
    if child:
        return child
    torch.set_num_threads(1)
    try:
        run(folder, progress=lambda record: time.sleep(pause))
    finally:
        os._exit(0)


def test_killed_at_random_moments(tmp_path, undisturbed, every_round):
    """SIGKILL, eight times: while starting, learning, testing or writing; each child gets a little
    further."""
    chance, reached = random.Random(7), [0]
    for _ in range(8):
        child = in_a_process(tmp_path, pause=0.005)
        goal = reached[-1] + chance.choice([0, 1, 2])
        wait_for(lambda goal=goal: rounds_on_disk(tmp_path) >= min(goal, ROUNDS - 1))
        time.sleep(chance.uniform(0, 0.01))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        reached.append(rounds_on_disk(tmp_path))
    assert len(set(reached)) > 3
    assert same(run(tmp_path), undisturbed)


def rounds_on_disk(folder):
    path = folder / "rounds.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def wait_for(condition, patience=60):
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, "the run does not get on"
        time.sleep(0.001)


def test_workers_end_with_the_same_bits_too(tmp_path, every_round):
    whole = run(workers=2)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, workers=2, progress=stop_after(5))
    assert same(run(tmp_path, workers=2), whole)


def test_going_on_with_other_workers_is_said_and_equal_up_to_rounding(tmp_path, every_round):
    whole = run(workers=2)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, workers=2, progress=stop_after(5))
    said = "rounds so far were computed by 2 worker processes, those to come are by 3 worker"
    with pytest.warns(RuntimeWarning, match=said):
        ended = run(tmp_path, workers=3)
    torch.testing.assert_close(ended.state.parameters, whole.state.parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(run(tmp_path, workers=0), ended)  # it is finished: nothing is computed


def test_a_finished_run_is_read_and_not_run_again(tmp_path, undisturbed):
    run(tmp_path)
    done = []
    assert same(run(tmp_path, progress=done.append), undisturbed)
    assert done == []


def test_the_folder_holds_one_record_per_round(tmp_path, undisturbed):
    run(tmp_path)
    assert checkpoint.read_rounds(tmp_path / "rounds.jsonl") == undisturbed.history
    lines = (tmp_path / "rounds.jsonl").read_text().splitlines()
    for line, record in zip(lines, undisturbed.history, strict=True):
        plain = json.loads(line)
        assert len(plain.pop("check")) == 16
        assert plain == asdict(record)


def test_what_was_written_after_the_last_state_is_dropped(tmp_path, undisturbed, every_round):
    """A kill between the records and the state leaves lines too many, the last perhaps in half."""
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, progress=stop_after(6))
    with open(tmp_path / "rounds.jsonl", "a") as file:
        file.write(json.dumps(asdict(undisturbed.history[5])) + '\n{"round": 7, "lear')
    assert same(run(tmp_path), undisturbed)
    assert len((tmp_path / "rounds.jsonl").read_text().splitlines()) == ROUNDS


@pytest.mark.parametrize("write", range(1, 9))
def test_a_full_disk_loses_nothing(tmp_path, undisturbed, every_round, monkeypatch, write):
    """The n-th write to disk fails; what was there before is whole, and the run goes on from it."""
    count, real = iter(range(1, 10_000)), os.fsync

    def full(handle):
        if next(count) == write:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            run(tmp_path)
    assert same(run(tmp_path), undisturbed)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rounds.jsonl", "state.npz"]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "a"
    files.replace(path, b"old")

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.replace(path, b"new" * 1000)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


OTHER = {
    "seed": {"seed": 4},
    "local steps": {"local_steps": 3},
    "batch size": {"batch_size": 3},
    "participation": {"participation": None},
    "learning rate": {"learning_rate": 0.1},
    "strategy": {"strategy": hw.ByMemory()},
    "projection": {"projection": hw.Ball(1.0)},
    "model": {"start": model(seed=1)},
    "samples": {"streams": clients(seed=1)},
    "loss": {"loss": lambda output, target: 2 * hw.cross_entropy(output, target)},
    "a sample in the middle": {"streams": clients(change=lambda x, y: x.__setitem__((17, 2), 9.0))},
    "a label in the middle": {"streams": clients(change=lambda x, y: y.__setitem__(11, 1 - y[11]))},
    "test samples": {"streams": clients(change=lambda x, y: x.__setitem__((50, 2), 9.0))},
    "metrics": {"metrics": {"accuracy": lambda output, target: output[:, 0]}},
    "test_every": {"test_every": 4},
    "dropout rate": {"start": model(drop=0.31)},
    "a hook": {"start": hooked()},
    "a frozen layer": {"start": frozen()},
}


@pytest.mark.parametrize("what", OTHER)
def test_the_folder_of_another_run_is_refused_and_left_alone(tmp_path, every_round, what):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, progress=stop_after(5))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(hw.InputError, match="other settings"):
        run(tmp_path, **OTHER[what])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "zeros"])
def test_a_damaged_state_is_named_and_nothing_is_overwritten(tmp_path, every_round, damage):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, progress=stop_after(5))
    path = tmp_path / "state.npz"
    whole = path.read_bytes()
    middle = len(whole) // 2
    zeroed = whole[:middle] + bytes(200) + whole[middle + 200 :]
    content = {"cut": whole[:middle], "empty": b"", "text": b"not a state", "zeros": zeroed}[damage]
    path.write_bytes(content)
    with pytest.raises(hw.InputError, match=r"state\.npz.*delete the folder"):
        run(tmp_path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("damage", ["gone", "short", "text"])
def test_damaged_records_are_named(tmp_path, every_round, damage):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, progress=stop_after(5))
    path = tmp_path / "rounds.jsonl"
    if damage == "gone":
        path.unlink()
    else:
        lines = path.read_text().splitlines(keepends=True)
        path.write_text(
            "".join(lines[:2] if damage == "short" else [*lines[:2], "{not json\n", *lines[3:]])
        )
    with pytest.raises(hw.InputError, match=r"rounds\.jsonl"):
        run(tmp_path)


def test_a_loss_of_the_same_name_is_another_loss(tmp_path, every_round):
    """Same name, same shape of code; another number in it, or in what it closes over."""

    def scaled(by):
        def loss(output, target):
            return by * hw.cross_entropy(output, target)

        return loss

    run(tmp_path, loss=scaled(1.0))
    run(tmp_path, loss=scaled(1.0))
    with pytest.raises(hw.InputError, match=r"other settings: the loss;"):
        run(tmp_path, loss=scaled(2.0))


def test_other_versions_are_other_runs(tmp_path, monkeypatch):
    run(tmp_path)
    monkeypatch.setattr(hw, "__version__", "0.0.0")
    with pytest.raises(hw.InputError, match="versions of headwater, torch or Python"):
        run(tmp_path)


def test_what_cannot_be_identified_is_refused_unless_a_version_stands_for_it(tmp_path):
    lock = threading.Lock()

    def loss(output, target):
        with lock:
            return hw.cross_entropy(output, target)

    with pytest.raises(hw.InputError, match=r"the loss.*lock.*version="):
        run(tmp_path, loss=loss)
    run(tmp_path, loss=loss, version="1")
    run(tmp_path, loss=loss, version="1")
    with pytest.raises(hw.InputError, match="the loss"):
        run(tmp_path, loss=loss, version="2")


def damaged(content, chance):
    """A file with one flipped bit, or with lines swapped, doubled, left out or cut."""
    kind = chance.choice(["bit", "bit", "bit", "swap", "double", "missing", "cut"])
    lines = content.splitlines(keepends=True)
    one, two = chance.sample(range(len(lines)), 2) if len(lines) > 1 else (0, 0)
    if kind == "bit" or len(lines) < 2:
        place = chance.randrange(len(content))
        return (
            content[:place]
            + bytes([content[place] ^ 1 << chance.randrange(8)])
            + content[place + 1 :]
        )
    if kind == "swap":
        lines[one], lines[two] = lines[two], lines[one]
    elif kind == "double":
        lines.insert(one, lines[two])
    elif kind == "missing":
        del lines[one]
    else:
        lines[one] = lines[one][: len(lines[one]) // 2]
    return b"".join(lines)


@pytest.mark.parametrize("name", ["rounds.jsonl", "state.npz"])
def test_damage_is_never_believed(tmp_path, undisturbed, name):
    """Seventy damaged variants of each file: refused by name, or without any effect."""
    run(tmp_path)
    chance, refused = random.Random(11), 0
    whole = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for _ in range(70):
        (tmp_path / name).write_bytes(damaged(whole[name], chance))
        stored = None
        with contextlib.suppress(hw.InputError):
            stored = checkpoint.read(tmp_path)
        refused += stored is None
        if stored is not None:
            assert stored.history == undisturbed.history
            assert torch.equal(stored.state.parameters, undisturbed.state.parameters)
            assert torch.equal(stored.state.average, undisturbed.state.average)
            assert (stored.state.round, stored.rounds) == (ROUNDS, ROUNDS)
    assert refused > 50


def test_a_flipped_bit_anywhere_in_the_state_is_named_or_without_effect(tmp_path, undisturbed):
    run(tmp_path)
    file = tmp_path / "state.npz"
    whole, chance, refused = file.read_bytes(), random.Random(3), 0
    for place in range(0, len(whole), 4):
        changed = bytearray(whole)
        changed[place] ^= 1 << chance.randrange(8)
        file.write_bytes(changed)
        try:
            stored = checkpoint.read(tmp_path)
            checkpoint.read_measured(tmp_path)
        except hw.InputError:
            refused += 1
        else:
            assert stored.history == undisturbed.history
            assert torch.equal(stored.state.parameters, undisturbed.state.parameters)
    assert refused > 0.15 * len(whole)


def test_a_finished_run_goes_on_for_more_rounds(tmp_path):
    """Weights that do not look ahead: the longer run is the run of that length from the start."""
    kinds = {"strategy": hw.ByMemory(), "test_every": 1}
    run(tmp_path, **kinds)
    done = []
    longer = run(tmp_path, rounds=ROUNDS + 6, progress=done.append, **kinds)
    straight = run(rounds=ROUNDS + 6, **kinds)
    assert [record.round for record in done] == list(range(ROUNDS + 1, ROUNDS + 7))
    assert torch.equal(longer.state.parameters, straight.state.parameters)
    torch.testing.assert_close(longer.state.average, straight.state.average)
    assert longer.state.weight == pytest.approx(1.0)
    # Every round has its share of the longer run, also those that were learned before.
    assert longer.history == straight.history
    assert sum(record.share for record in longer.history) == pytest.approx(1.0)


def test_a_run_whose_weights_look_ahead_is_not_made_longer(tmp_path):
    run(tmp_path)
    before = (tmp_path / "state.npz").read_bytes()
    with pytest.raises(hw.InputError, match=r"rounds: .*Uniform\(\).*length of the run"):
        run(tmp_path, rounds=ROUNDS + 6)
    assert (tmp_path / "state.npz").read_bytes() == before


def test_a_finished_run_is_not_made_shorter(tmp_path):
    run(tmp_path, strategy=hw.ByMemory())
    with pytest.raises(hw.InputError, match=r"rounds: .*holds 12 already; got 5"):
        run(tmp_path, strategy=hw.ByMemory(), rounds=5)


def test_a_full_disk_names_the_file(tmp_path, every_round, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left.*rounds\.jsonl"):
        run(tmp_path)


def test_a_checkpoint_is_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(hw.InputError, match=r"checkpoint: .* is a file"):
        run(tmp_path / "file")
    with pytest.raises(hw.InputError, match="checkpoint: a folder's path; got 3"):
        run(3)
