"""``runs.jsonl``: nothing lost by a kill, nothing wrong after damage."""

from __future__ import annotations

import multiprocessing
import random
import re
from pathlib import Path

import pytest

from headwater.errors import InputError
from headwater.experiments.run_log import RunLog


def lines(log: RunLog) -> list[int]:
    return [line["n"] for line in log.read("run")]


def outcome(log: RunLog) -> object:
    """What is read, or what is said about it."""
    try:
        return log.read("run")
    except InputError as error:
        return str(error)


def make(folder: Path, count: int = 3) -> RunLog:
    log = RunLog(folder / "table" / "runs.jsonl")
    for n in range(count):
        log.append("run", {"n": n, "text": "a" * 50})
    return log


def test_lines_come_back_by_kind_and_in_order(tmp_path: Path) -> None:
    log = make(tmp_path)
    log.append("estimate", {"n": 7})
    assert lines(log) == [0, 1, 2]
    assert log.read("estimate") == [{"n": 7}]
    assert RunLog(tmp_path / "none.jsonl").read("run") == []


def test_numbers_as_names_come_back_as_words(tmp_path: Path) -> None:
    log = make(tmp_path)
    log.append("lines", {"runs": dict.fromkeys(range(12), "x")})  # "10" comes before "2"
    assert log.read("lines")[0]["runs"]["10"] == "x"


def test_a_line_torn_anywhere_is_dropped_and_the_next_one_is_whole(tmp_path: Path) -> None:
    log = make(tmp_path, 2)
    whole = log.file.read_bytes()
    second = whole.index(b"\n") + 1
    for end in range(second, len(whole)):  # the second line's writer is killed after each byte
        log.file.write_bytes(whole[:end])
        assert lines(log) == [0]
        log.append("run", {"n": 5})
        assert lines(log) == [0, 5]


def test_the_torn_end_of_a_long_line_is_cut_off_too(tmp_path: Path) -> None:
    log = make(tmp_path, 1)
    with open(log.file, "ab") as file:
        file.write(b'{"n": 1, "text": "' + b"b" * 10_000)
    log.append("run", {"n": 2})
    assert lines(log) == [0, 2]
    assert log.file.read_bytes().count(b"\n") == 2


def test_a_file_that_is_one_torn_line_begins_anew(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "runs.jsonl")
    log.file.write_bytes(b'{"n": 1')
    log.append("run", {"n": 2})
    assert lines(log) == [2]


def test_every_changed_byte_is_found_and_its_line_named(tmp_path: Path) -> None:
    """Any byte, changed to any other: either the very same content comes back or it is refused."""
    log = make(tmp_path)
    whole, draw = log.file.read_bytes(), random.Random(1)
    before = log.read("run")
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << draw.randrange(8)
        log.file.write_bytes(changed)
        found = outcome(log)
        torn = before[:-1]  # where the last line has lost its end
        assert found in (before, torn) or re.search(r"runs.jsonl: line \d.*delete that", str(found))


def test_without_the_damaged_line_the_rest_is_there(tmp_path: Path) -> None:
    log = make(tmp_path)
    rows = log.file.read_bytes().splitlines(keepends=True)
    log.file.write_bytes(rows[0] + rows[1].replace(b"a", b"b", 1) + rows[2])
    with pytest.raises(InputError, match="line 2 is damaged"):
        log.read("run")
    log.file.write_bytes(rows[0] + rows[2])
    assert lines(log) == [0, 2]


@pytest.mark.parametrize("junk", [b"[1]\n", b"5\n", b"\xff\xfe\n", b"{}\n", b"[" * 9999 + b"\n"])
def test_lines_of_something_else_are_refused(tmp_path: Path, junk: bytes) -> None:
    log = make(tmp_path)
    with open(log.file, "ab") as file:
        file.write(junk)
    with pytest.raises(InputError, match="line 4 is damaged"):
        log.read("run")


def test_numbers_that_json_does_not_have_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        make(tmp_path).append("run", {"n": float("nan")})


def write_many(log: RunLog, first: int) -> None:
    for n in range(first, first + 50):
        log.append("run", {"n": n, "text": "c" * 300})


def test_processes_that_write_at_once_do_not_mix_their_lines(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "runs.jsonl")
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=write_many, args=(log, 100 * k)) for k in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(lines(log)) == [100 * k + n for k in range(4) for n in range(50)]
