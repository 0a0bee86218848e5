"""A memory on disk holds what the simulator's ledger says, whatever happens to the process."""

from __future__ import annotations

import os
import random
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numbered_stream
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numbered_stream import SCHEMA, check_whole, expected, open_memory, stream

import headwater as hw
from headwater.devices.memory import Batch, DurableMemory, table
from headwater.devices.memory.database import Database, DiskFullError
from headwater.devices.memory.schema import Schema
from headwater.randomness import Purpose, below


@dataclass(frozen=True)
class RandomReplacement:
    """A user's own rule: fill the memory, then overwrite a random slot with every new sample."""

    capacity: int

    def slots(self, samples):
        anywhere = below(self.capacity, samples.draw(Purpose.MEMORY))
        return np.where(samples.position < self.capacity, samples.position, anywhere)


CAPACITIES = st.integers(1, 12)
RULES = st.just(hw.Keep()) | st.builds(hw.Fifo, CAPACITIES) | st.builds(hw.Reservoir, CAPACITIES)
RULES |= st.builds(RandomReplacement, CAPACITIES)


@given(RULES, st.lists(st.integers(0, 30), max_size=6), st.integers(0, 3), st.integers(0, 2**40))
@settings(max_examples=60, deadline=None)
def test_a_replayed_stream_leaves_what_the_ledger_says(rule, batches, client, seed):
    with tempfile.TemporaryDirectory() as folder:
        memory = open_memory(Path(folder) / "m.db", rule, client, seed)
        for size in batches:
            memory.take_in(stream(memory.arrived, size))
            positions = check_whole(memory).positions
            if memory.arrived:
                np.testing.assert_array_equal(
                    positions, expected(rule, client, seed, memory.arrived)
                )
        assert memory.arrived == sum(batches)
        memory.database.close()


def test_rounds_of_a_poisson_stream_are_those_of_the_simulator(tmp_path):
    """Arrivals of whole rounds, by the simulator's own process, for the third of three clients."""
    process, rule, count, rounds = hw.Poisson(2.0), hw.Reservoir(9), 60, 25
    holdings = hw.unroll([count] * 3, process, rule, rounds, seed=5)
    samples = hw.Samples.of(np.array([2]), np.array([count]), 5)
    arrivals = process.rounds(samples)
    memory = open_memory(tmp_path / "m.db", rule, client=2, seed=5)
    for round in range(1, rounds + 1):
        memory.take_in(stream(memory.arrived, int((arrivals == round).sum())), round)
        held = np.flatnonzero(holdings.held(round)[2 * count :])
        np.testing.assert_array_equal(check_whole(memory).positions, held)
        stored = memory.database.rows("SELECT position, round FROM sample")
        assert all(arrivals[position] == entered for position, entered in stored)
    memory.database.close()


def test_a_memory_goes_on_where_it_was(tmp_path):
    for size in (7, 5, 40):
        memory = open_memory(tmp_path / "m.db", hw.Reservoir(10), client=1, seed=2)
        memory.take_in(stream(memory.arrived, size))
        memory.database.close()
    memory = open_memory(tmp_path / "m.db", hw.Reservoir(10), client=1, seed=2)
    assert memory.arrived == 52
    np.testing.assert_array_equal(
        check_whole(memory).positions, expected(hw.Reservoir(10), 1, 2, 52)
    )
    memory.database.close()


@pytest.mark.parametrize("batch", [1, 40, 400])
def test_kill_9_loses_no_committed_sample(tmp_path, batch):
    """Killed several times at random moments, each time after at least one more commit."""
    path, script = tmp_path / "m.db", numbered_stream.__file__
    chance, safe = random.Random(batch), 0
    for _ in range(5):
        with subprocess.Popen(
            [sys.executable, script, str(path), str(batch)], stdout=subprocess.PIPE, text=True
        ) as process:
            for _ in range(chance.randint(1, 60)):
                safe = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            told = [safe, *(int(line) for line in process.stdout if line.endswith("\n"))]
        memory = open_memory(path, hw.Reservoir(50), client=3, seed=7)
        assert memory.arrived >= told[-1]
        assert memory.arrived % batch == 0  # a batch is there whole or not at all
        held = check_whole(memory).positions
        np.testing.assert_array_equal(held, expected(hw.Reservoir(50), 3, 7, memory.arrived))
        memory.database.close()


def test_a_second_process_is_told_who_has_it(tmp_path):
    memory = open_memory(tmp_path / "m.db", hw.Keep())
    with pytest.raises(hw.InputError, match=rf"m.db: process {os.getpid()} \(since 20\d\d-.*\)"):
        open_memory(tmp_path / "m.db", hw.Keep())
    memory.database.close()
    open_memory(tmp_path / "m.db", hw.Keep()).database.close()


def test_a_dead_holder_does_not_block(tmp_path):
    path, script = tmp_path / "m.db", numbered_stream.__file__
    with subprocess.Popen(
        [sys.executable, script, str(path), "1"], stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        with pytest.raises(hw.InputError, match=f"process {process.pid}"):
            open_memory(path, hw.Reservoir(50), client=3, seed=7)
        process.kill()
    memory = open_memory(path, hw.Reservoir(50), client=3, seed=7)
    assert memory.arrived > 0
    memory.database.close()


def fill(memory, batch=20):
    """Take in until there is no room; how many samples were safe before."""
    for _ in range(10_000):
        safe = memory.arrived
        try:
            memory.take_in(stream(safe, batch))
        except DiskFullError:
            return safe
    raise AssertionError("the disk did not fill")


def test_a_full_disk_leaves_the_memory_whole_and_it_goes_on_when_there_is_room(tmp_path):
    memory = open_memory(tmp_path / "m.db", hw.Keep(), pages=24)
    safe = fill(memory)
    assert safe > 0
    assert memory.arrived == safe
    check_whole(memory)
    with memory.database.transaction() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    memory.take_in(stream(safe, 20))
    assert len(check_whole(memory).positions) == safe + 20
    memory.database.close()


def test_a_file_that_may_not_grow_is_a_full_disk(tmp_path):
    """The file system's own refusal, in a process of its own: the limit cannot be lifted again."""
    child = os.fork()
    if not child:
        status = 1
        try:
            memory = open_memory(tmp_path / "m.db", hw.Keep())
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
            assert fill(memory) == memory.arrived > 0
            check_whole(memory)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    memory = open_memory(tmp_path / "m.db", hw.Keep())
    assert len(check_whole(memory).positions) > 0
    memory.database.close()


def test_a_failed_batch_leaves_nothing(tmp_path):
    memory = open_memory(tmp_path / "m.db", hw.Fifo(5))
    memory.take_in(stream(0, 8))
    with suppress(ZeroDivisionError), memory.database.transaction():
        memory.take_in(stream(8, 3))
        1 / 0  # noqa: B018
    assert memory.arrived == 8
    assert check_whole(memory).positions.tolist() == [3, 4, 5, 6, 7]
    memory.database.close()


@dataclass(frozen=True)
class Greedy:
    """A wrong rule: it puts samples where there is no slot."""

    capacity: int = 2

    def slots(self, samples):
        return samples.position


def test_a_wrong_rule_cannot_exceed_the_capacity(tmp_path):
    memory = open_memory(tmp_path / "m.db", Greedy())
    memory.take_in(stream(0, 2))
    with pytest.raises(Exception, match="CHECK constraint failed"):
        memory.take_in(stream(2, 1))
    assert check_whole(memory).positions.tolist() == [0, 1]
    memory.database.close()


@pytest.mark.parametrize(
    ("rule", "schema", "client", "says"),
    [
        (hw.Fifo(6), SCHEMA, 0, r"begun with rule = Fifo\(capacity=5\)"),
        (hw.Fifo(5), SCHEMA, 1, "begun with client = 0"),
        (hw.Fifo(5), Schema.classes((4,), 10), 0, r"features = \(3,\), the settings say \(4,\)"),
        (hw.Fifo(5), Schema.classes((3,), 9), 0, "high = 9"),
    ],
)
def test_a_file_with_other_samples_is_refused(tmp_path, rule, schema, client, says):
    open_memory(tmp_path / "m.db", hw.Fifo(5)).database.close()
    database = Database(tmp_path / "m.db")
    with pytest.raises(hw.InputError, match=says):
        DurableMemory(database, rule, schema, client)
    database.close()


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "m.db").write_text("no database at all, but long enough to look at" * 50)
    with pytest.raises(hw.InputError, match="not a memory file"):
        Database(tmp_path / "m.db")


def test_each_sample_keeps_its_id_and_time(tmp_path):
    memory = open_memory(tmp_path / "m.db", hw.Fifo(2))
    batch = stream(0, 3)
    memory.take_in(Batch(batch.x, batch.y, ["a", "b", None], [1.5, 2.5, 3.5]), round=4)
    rows = memory.database.rows("SELECT position, id, time, round FROM sample ORDER BY position")
    assert rows == [(1, "b", 2.5, 4), (2, None, 3.5, 4)]
    memory.database.close()


def test_a_time_that_is_missing_is_now_and_zero_is_a_time(tmp_path):
    memory = open_memory(tmp_path / "m.db", hw.Keep())
    batch, before = stream(0, 3), time.time()
    memory.take_in(Batch(batch.x, batch.y, None, [0.0, None, 7.0]))
    memory.take_in(stream(3, 1))
    rows = memory.database.rows("SELECT id, time FROM sample ORDER BY position")
    assert [id for id, _ in rows] == [None] * 4
    assert [rows[0][1], rows[2][1]] == [0.0, 7.0]
    assert before <= rows[1][1] <= rows[3][1] <= time.time()
    memory.database.close()


@pytest.mark.parametrize("rule", [hw.Keep(), hw.Fifo(30), hw.Reservoir(30)])
def test_a_batch_too_long_for_one_statement_is_written_in_pieces(tmp_path, monkeypatch, rule):
    monkeypatch.setattr(table, "_BYTES", 7 * 12)  # seven samples of three float32
    memory = open_memory(tmp_path / "m.db", rule)
    batch, ids = stream(0, 50), [str(k) for k in range(50)]
    memory.take_in(Batch(batch.x, batch.y, ids, np.arange(50.0).tolist()))
    positions = check_whole(memory).positions
    np.testing.assert_array_equal(positions, expected(rule, 0, 0, 50))
    named = memory.database.rows("SELECT id, time FROM sample ORDER BY position")
    assert named == [(str(k), float(k)) for k in positions]
    memory.database.close()


def test_a_snapshot_is_read_once_and_can_be_trained_on(tmp_path):
    memory = open_memory(tmp_path / "m.db", hw.Keep())
    memory.take_in(stream(0, 5))
    first = memory.snapshot()
    assert memory.snapshot() is first
    assert first.x.flags.writeable
    assert first.x.flags.c_contiguous
    memory.take_in(stream(5, 1))
    assert len(memory.snapshot().y) == 6
    memory.database.close()


def test_an_empty_memory_has_an_empty_snapshot(tmp_path):
    memory = open_memory(tmp_path / "m.db", hw.Keep())
    assert memory.snapshot().x.shape == (0, 3)
    memory.database.close()


def test_only_the_owner_can_read_the_files(tmp_path):
    memory = open_memory(tmp_path / "folder" / "m.db", hw.Keep())
    memory.take_in(stream(0, 5))
    files = list((tmp_path / "folder").iterdir())
    assert len(files) == 4  # the file, its log, the log's index, the lock
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    memory.database.close()


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        (np.zeros(2), 0, "shape"),
        (np.array([0, np.nan, 0]), 0, "NaN, infinite"),
        (np.array([0, np.inf, 0]), 0, "NaN, infinite"),
        (np.zeros(3), float("nan"), "label is NaN"),
        (np.zeros(3), 1.5, "no whole number"),
        (np.zeros(3), -1, "below 0"),
        (np.zeros(3), 10, "above 9"),
        (np.zeros(3), "1", "no number"),
        (np.zeros(3), True, "no number"),
    ],
)
def test_what_does_not_fit_the_schema_is_named(x, y, says):
    assert says in SCHEMA.problem(x, y)
    if x.shape == (3,) and not isinstance(y, str | bool):
        assert not SCHEMA.fit(x[None], np.array([y]))


def test_a_number_that_is_infinite_when_it_is_stored_is_refused():
    large = np.array([0, 1e300, 0])
    assert "not to be stored as float32" in SCHEMA.problem(large, 0)
    assert not SCHEMA.fit(large[None], np.zeros(1))
    number = Schema((1,), label_type="float32")
    assert "infinite" in number.problem(np.zeros(1), 1e300)
    assert not number.fit(np.zeros((1, 1)), np.array([1e300]))
    double = Schema((3,), "float64", low=0, high=1)
    assert double.fit(large[None], np.zeros(1))


def test_features_that_are_whole_numbers_must_be_whole():
    words = Schema((2,), "int64", low=0, high=1)
    assert words.fit(np.array([[3.0, 4.0]]), np.zeros(1))
    assert not words.fit(np.array([[3.0, 4.5]]), np.zeros(1))
    assert "int64" in words.problem(np.array([3.0, 4.5]), 0)
    assert "int64" in words.problem(np.array([3.0, 1e17]), 0)


def test_what_fits_the_schema_has_no_problem():
    assert SCHEMA.problem(np.zeros(3), 9) is None
    assert SCHEMA.fit(np.zeros((4, 3)), np.arange(4))
    assert Schema((2,), label_type="float32").fit(np.zeros((1, 2)), np.array([-1.5e6]))
