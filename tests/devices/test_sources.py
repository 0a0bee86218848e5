"""Files, pipes, recordings and functions as streams: nothing lost, nothing doubled."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import intakes
import pytest
from hypothesis import given
from hypothesis import strategies as st
from intakes import Taking, held
from node_process import running, write_toml
from nodes import node_settings, samples, write_csv

import headwater as hw
from headwater.devices.node.stream import Pace
from headwater.devices.settings.sources import CsvSettings
from headwater.devices.sources.csv_replay import CsvReplay
from headwater.devices.sources.lines import LineCutter


def line(k):
    return json.dumps({"a": k, "b": 0, "c": 0, "label": k % 3}) + "\n"


def lines(*numbers):
    return "".join(map(line, numbers))


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr("headwater.devices.sources.rotation.LINGER", 1.0)
    path = tmp_path / "s.ndjson"
    path.touch()
    return path


def append(path, text):
    with path.open("a") as file:
        file.write(text)


def follow(path, **changes):
    source = {"kind": "lines", "path": path, **changes.pop("source", {})}
    return node_settings(path.parent / "n", source=source, **changes)


@given(st.binary(max_size=40).map(lambda b: b.replace(b"\r", b"\n")), st.integers(1, 5), st.data())
def test_lines_are_cut_the_same_however_they_come(text, limit, data):
    cutter, pieces = LineCutter(limit), []
    while text[sum(map(len, pieces)) :]:
        rest = text[sum(map(len, pieces)) :]
        pieces.append(rest[: data.draw(st.integers(1, len(rest)))])
    got = [part for piece in pieces for part in cutter.feed(piece)]
    *whole, last = text.split(b"\n")
    ends = [sum(len(part) + 1 for part in whole[: k + 1]) for k in range(len(whole))]
    assert got == [(part[: limit + 1], end) for part, end in zip(whole, ends, strict=True)]
    assert cutter.finish() == ([(last[: limit + 1], len(text))] if last else [])


def test_what_is_appended_is_taken_in(file):
    append(file, lines(0, 1))
    with Taking(follow(file)) as taking:
        taking.until_arrived(2)
        append(file, line(2)[:9])  # a writer in the middle of a line
        append(file, line(2)[9:] + "\n\n" + line(3))
        taking.until_arrived(4)
        assert held(taking.intake) == [0, 1, 2, 3]
        assert taking.intake.memory.state.number("malformed") == 0


def test_a_restart_goes_on_after_the_last_line(file):
    append(file, lines(*range(700)))
    with Taking(follow(file)) as taking:
        taking.until_arrived(256)
    with Taking(follow(file)) as taking:
        append(file, lines(700))
        taking.until_arrived(701)
        assert held(taking.intake) == list(range(701))


def test_a_rotated_file_is_read_to_its_end_and_then_the_new_one(file):
    append(file, lines(0, 1))
    with Taking(follow(file)) as taking:
        taking.until_arrived(2)
        file.rename(file.with_suffix(".1"))
        append(file, lines(2))
        taking.until_arrived(3)
        assert held(taking.intake) == [0, 1, 2]
    file.unlink()
    append(file, lines(3, 4))  # rotated while nobody looked
    with Taking(follow(file)) as taking:
        taking.until_arrived(5)
        assert held(taking.intake) == [0, 1, 2, 3, 4]


def rotate(file, number=1):
    """As logrotate does with ``create``: the name gets a new file, the old one another name."""
    old = file.with_name(f"{file.name}.{number}")
    file.rename(old)
    file.touch()
    return old


def test_what_a_writer_puts_into_the_old_file_after_rotation_is_read(file):
    append(file, lines(0))
    with Taking(follow(file)) as taking, file.open("a") as writer:
        taking.until_arrived(1)
        rotate(file)
        append(file, lines(3))
        time.sleep(0.5)  # the node has noticed
        writer.write(lines(1) + line(2).strip())  # the last line has no end
        writer.flush()
        taking.until_arrived(4)
        assert held(taking.intake) == [0, 1, 2, 3]


def test_a_node_that_stops_while_it_reads_an_old_file_goes_on_with_it(file, monkeypatch):
    monkeypatch.setattr("headwater.devices.sources.rotation.LINGER", 100.0)
    append(file, lines(0))
    with Taking(follow(file)) as taking:
        taking.until_arrived(1)
        old = rotate(file)
        append(file, lines(2))
        time.sleep(0.5)  # the node has noticed
    append(old, lines(1))
    monkeypatch.setattr("headwater.devices.sources.rotation.LINGER", 1.0)
    with Taking(follow(file)) as taking:
        taking.until_arrived(3)
        assert held(taking.intake) == [0, 1, 2]


def test_files_that_are_rotated_quickly_are_all_read(file):
    append(file, lines(0))
    with Taking(follow(file)) as taking:
        taking.until_arrived(1)
        for k in range(1, 5):
            rotate(file, k)
            append(file, lines(k))
            time.sleep(0.5)
        taking.until_arrived(5)
        assert held(taking.intake) == [0, 1, 2, 3, 4]


def test_the_rest_of_a_file_that_was_rotated_while_the_node_was_down_is_read_first(file, caplog):
    append(file, lines(0))
    with Taking(follow(file)) as taking:
        taking.until_arrived(1)
    append(file, lines(1) + line(2).strip())
    rotate(file)
    append(file, lines(3))
    with Taking(follow(file)) as taking:
        taking.until_arrived(4)
        assert held(taking.intake) == [0, 1, 2, 3]
    with Taking(follow(file)) as taking:  # and only once
        append(file, lines(4))
        taking.until_arrived(5)
        assert held(taking.intake) == [0, 1, 2, 3, 4]
    assert not caplog.records


@pytest.mark.parametrize("gone", [True, False])
def test_a_loss_by_rotation_while_the_node_was_down_is_told(file, caplog, gone):
    append(file, lines(0))
    with Taking(follow(file)) as taking:
        taking.until_arrived(1)
    rotate(file, 2)
    if gone:
        file.with_name(file.name + ".2").unlink()
    append(file, lines(1))
    os.utime(file, ns=(2**62, 2**62))  # surely later
    between = rotate(file)
    append(file, lines(2))
    with Taking(follow(file)) as taking:
        taking.until_arrived(2)
        assert held(taking.intake) == [0, 2]
    (record,) = caplog.records
    if gone:
        assert record.message == "the file that was being read is gone: lines may be lost"
    else:
        assert record.message == "rotated more than once meanwhile: a file is not read"
        assert record.file == str(between)


def test_a_node_that_stops_before_the_first_line_of_a_new_file_misses_no_old_one(file, caplog):
    append(file, lines(0))
    with Taking(follow(file)) as taking:
        taking.until_arrived(1)
        old = rotate(file)
        # the new file is the one to go on with: device, inode, offset, what stands before it
        taking.until(lambda intake: json.loads(intake.memory.state.get("lines read"))[2] == 0)
    old.unlink()  # or compressed
    append(file, lines(1))
    with Taking(follow(file)) as taking:
        taking.until_arrived(2)
    assert not caplog.records


def test_a_new_file_with_the_number_of_a_deleted_one_is_a_new_file(file):
    append(file, lines(0, 1))
    with Taking(follow(file)) as taking:
        taking.until_arrived(2)
    with file.open("r+") as same:  # the same inode and length, other content
        same.write(lines(3, 4))
    with Taking(follow(file)) as taking:
        taking.until_arrived(4)
        assert held(taking.intake) == [0, 1, 3, 4]


def test_a_file_that_was_shortened_begins_anew(file):
    append(file, lines(0, 1, 2))
    with Taking(follow(file)) as taking:
        taking.until_arrived(3)
        file.write_text(lines(3))
        taking.until_arrived(4)
        assert held(taking.intake) == [0, 1, 2, 3]


def test_without_following_the_end_is_the_end(file):
    append(file, lines(0, 1) + line(2).strip())
    settings = follow(file, source={"follow": False})
    for _ in range(2):
        with Taking(settings) as taking:
            taking.until_ended()
            assert held(taking.intake) == [0, 1, 2]


def test_a_line_that_is_too_long_is_a_dead_letter_and_the_next_is_not(file):
    append(file, line(0) + '{"a": "' + "x" * 300_000 + '"}\n' + line(1))
    with Taking(follow(file, limits={"message_bytes": 1000})) as taking:
        taking.until_arrived(2)
        assert held(taking.intake) == [0, 1]
        assert taking.intake.dead_letters.all()[0][0] == "1001 bytes, at most 1000"


def test_a_named_pipe_outlives_its_writers(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with Taking(follow(tmp_path / "pipe")) as taking:
        for k in range(3):
            (tmp_path / "pipe").write_text(line(k))
            taking.until_arrived(k + 1)
        assert held(taking.intake) == [0, 1, 2]


def test_kill_9_neither_loses_nor_doubles_a_line(file):
    """A process that follows a growing file, killed at random moments."""
    source = f'[source]\nkind = "lines"\npath = "{file}"\n[limits]\nbatch = 7'
    toml = write_toml(file.parent, source)
    toml.write_text(toml.read_text().replace('rule = "fifo"\ncapacity = 40', 'rule = "keep"'))
    chance, written = random.Random(1), 0
    for _ in range(4):
        append(file, lines(*range(written, written + 150)))
        written += 150
        with subprocess.Popen(
            [sys.executable, intakes.__file__, str(toml)], stdout=subprocess.PIPE, text=True
        ) as process:
            for _ in range(chance.randint(2, 12)):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            process.stdout.read()
    with Taking(hw_settings(toml)) as taking:
        taking.until_arrived(written)
        assert held(taking.intake) == list(range(written))


def hw_settings(toml):
    from headwater.devices.settings import node_file

    return node_file.read(toml)


def test_a_node_reads_standard_input(tmp_path):
    toml = write_toml(tmp_path, '[source]\nkind = "lines"\npath = "-"')
    with running(toml, stdin=subprocess.PIPE) as node:
        node.process.stdin.write(lines(0, 1, 2))
        node.process.stdin.close()
        node.wait_for("the stream has ended")
        assert node.describe()["arrived"] == 3  # and the node stays


class Clock:
    """Time that passes only when somebody waits."""

    def __init__(self, stop_after=float("inf")):
        self.now, self.stop_after, self.waits = 100.0, stop_after, []

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.waits.append(round(seconds, 6))
        self.now += seconds
        return self.is_set()

    def is_set(self):
        return self.now > self.stop_after


class Marks(dict):
    """A state that only remembers."""

    def number(self, name):
        return self.get(name, 0)

    def set(self, name, value):
        self[name] = value


def replay(path, clock, marks, time_field=None, **how):
    source = CsvReplay(CsvSettings(kind="csv", path=path, **how), time_field, 2, clock)
    for delivery in source.deliveries(marks, clock):
        delivery.remember()
        yield round(clock.now - 100, 6), [row["a"] for row in delivery.messages]


def test_rows_come_at_their_rate(tmp_path):
    (tmp_path / "s.csv").write_text("a\n" + "\n".join("pqrst"))
    came = list(replay(tmp_path / "s.csv", Clock(), Marks(), per_second=2))
    # a row is handed over when the next is not due yet
    assert came == [(0, ["p"]), (0.5, ["q"]), (1, ["r"]), (1.5, ["s"]), (2, ["t"])]


def test_rows_come_as_recorded_only_faster(tmp_path):
    rows = [("p", 50), ("q", 50), ("r", 60), ("s", "?"), ("t", 55), ("u", 80)]
    (tmp_path / "s.csv").write_text("a,t\n" + "\n".join(f"{a},{t}" for a, t in rows))
    came = list(replay(tmp_path / "s.csv", Clock(), Marks(), "t", speed=10))
    assert came == [(0, ["p", "q"]), (1, ["r", "s"]), (1, ["t"]), (3, ["u"])]


def test_a_replay_goes_on_after_a_restart(tmp_path):
    (tmp_path / "s.csv").write_text("a\n" + "\n".join("pqrst"))
    marks = Marks()
    first = list(replay(tmp_path / "s.csv", Clock(stop_after=100.6), marks, per_second=2))
    second = list(replay(tmp_path / "s.csv", Clock(), marks, per_second=2))
    assert [row for _, rows in first + second for row in rows] == list("pqrst")
    assert len(first) == 2


def rows_of(came):
    return "".join(row for _, rows in came for row in rows)


def test_a_replay_of_another_file_begins_with_its_first_row(tmp_path, caplog):
    (tmp_path / "a.csv").write_text("a\n" + "\n".join("pqrst"))
    (tmp_path / "b.csv").write_text("a\n" + "\n".join("pqxyzuv"))
    marks = Marks()
    assert rows_of(replay(tmp_path / "a.csv", Clock(), marks, per_second=2)) == "pqrst"
    assert not caplog.records
    assert rows_of(replay(tmp_path / "b.csv", Clock(), marks, per_second=2)) == "pqxyzuv"
    assert [record.message for record in caplog.records] == [
        "another recording: it is read from its first row"
    ]
    (tmp_path / "c.csv").write_text("a\npq")  # shorter than what was read
    assert rows_of(replay(tmp_path / "c.csv", Clock(), marks, per_second=2)) == "pq"


def test_a_recording_that_has_moved_and_grown_goes_on(tmp_path):
    (tmp_path / "a.csv").write_text('a\n"p\np"\n\nq\n')
    marks = Marks()
    list(replay(tmp_path / "a.csv", Clock(), marks, per_second=2))
    (tmp_path / "a.csv").rename(tmp_path / "b.csv")
    append(tmp_path / "b.csv", "\nr\n")
    assert rows_of(replay(tmp_path / "b.csv", Clock(), marks, per_second=2)) == "r"


def test_a_mark_of_before_is_believed_once(tmp_path):
    (tmp_path / "a.csv").write_text("a\n" + "\n".join("pqrst"))
    (tmp_path / "b.csv").write_text("a\n" + "\n".join("uvwxyz"))
    marks = Marks({"csv rows": 3})
    assert rows_of(replay(tmp_path / "a.csv", Clock(), marks, per_second=2)) == "st"
    assert rows_of(replay(tmp_path / "b.csv", Clock(), marks, per_second=2)) == "uvwxyz"


def test_a_recording_streams_into_the_memory(tmp_path):
    x, y = samples(30)
    path = write_csv(tmp_path / "s.csv", x, y)
    source = {"kind": "csv", "path": path, "per_second": 1e6}
    with Taking(node_settings(tmp_path / "n", source=source)) as taking:
        taking.until_ended()
        assert (taking.intake.memory.snapshot().x == x).all()
        assert (taking.intake.memory.snapshot().y == y).all()


def test_speed_needs_times(tmp_path):
    with pytest.raises(hw.InputError, match="needs samples"):
        CsvReplay(CsvSettings(kind="csv", path=tmp_path, speed=1), None, 2)


MODULE = """
def forever(start):
    while True:
        yield {"a": start, "b": 0, "c": 0, "label": start % 3}
        start += 1

def five():
    yield from ({"a": k, "b": 0, "c": 0, "label": 0} for k in range(5))

def odd():
    yield from [None, 7, {"a": 1}, {"a": 1, "b": 0, "c": 0, "label": 0}]

def failing():
    yield {"a": 1, "b": 0, "c": 0, "label": 0}
    raise OSError("the sensor is gone")
"""


@pytest.fixture
def function(tmp_path, monkeypatch):
    (tmp_path / "sensor_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "sensor_module", raising=False)

    def settings(name):
        source = {"kind": "python", "call": f"sensor_module:{name}"}
        return node_settings(tmp_path / name, source=source)

    return settings


def test_a_function_goes_on_where_it_was(function):
    for least in (300, 600):
        with Taking(function("forever")) as taking:
            taking.until_arrived(least)
    numbers = held(Taking(function("forever")).intake)
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= 600


def test_a_function_that_ends_is_a_stream_that_ends(function):
    with Taking(function("five")) as taking:
        taking.until_ended()
        assert held(taking.intake) == [0, 1, 2, 3, 4]
        assert taking.stream.failure is None


def test_what_a_function_should_not_yield_is_a_dead_letter(function):
    with Taking(function("odd")) as taking:
        taking.until_ended()
        assert held(taking.intake) == [1]
        reasons = [reason for reason, _ in taking.intake.dead_letters.all()]
        assert reasons == [
            "a NoneType, not a record",
            "a int, not a record",
            "field 'b' is missing",
        ]


def test_a_function_that_fails_ends_the_node_and_keeps_what_came(function):
    with Taking(function("failing")) as taking:
        taking.until_ended()
        assert held(taking.intake) == [1]
        assert isinstance(taking.stream.failure, OSError)
        assert taking.stop.is_set()


def test_a_full_disk_lets_the_stream_wait(file, monkeypatch):
    monkeypatch.setattr("headwater.devices.node.stream._RETRY", 0.01)
    append(file, lines(*range(3000)))
    with Taking(follow(file), pages=24) as taking:
        taking.until(lambda _: taking.stream.waiting_for_disk)
        arrived = taking.intake.memory.arrived
        assert 0 < arrived < 3000
        with taking.intake.memory.database.transaction() as connection:
            connection.execute("PRAGMA max_page_count = 1000000")
        taking.until_arrived(3000)
        assert held(taking.intake) == list(range(3000))
        assert taking.stream.dropped == 0


def test_a_full_disk_lets_the_stream_drop(file):
    append(file, lines(*range(3000)))
    memory = {"rule": "keep", "on_full_disk": "drop"}
    settings = follow(file, memory=memory, source={"follow": False})
    with Taking(settings, pages=24) as taking:
        taking.until_ended()
        arrived = taking.intake.memory.arrived
        assert 0 < arrived < 3000
        assert taking.stream.dropped == 3000 - arrived
        assert held(taking.intake) == sorted(set(held(taking.intake)))
        assert len(held(taking.intake)) == arrived


def test_a_stop_ends_the_wait_for_a_full_disk(file):
    append(file, lines(*range(3000)))
    with Taking(follow(file), pages=24) as taking:
        taking.until(lambda _: taking.stream.waiting_for_disk)
    # leaving the block stops the stream and waits for its end


def test_a_rate_limit_lets_the_stream_wait(file, monkeypatch):
    append(file, lines(*range(50)))
    limits = {"per_second": 20.0, "batch": 10}
    waited = []
    taking = Taking(follow(file, limits=limits, source={"follow": False}))
    taking.stream._pace = Pace(20.0, now=0.0)
    monkeypatch.setattr("headwater.devices.node.stream.time.monotonic", lambda: 0.0)
    monkeypatch.setattr(taking.stop, "wait", lambda seconds: waited.append(seconds))
    with taking:
        taking.until_ended()
        assert held(taking.intake) == list(range(50))
    assert waited == [0.5, 1.0, 1.5]  # a second's worth comes at once, the others in their time
