"""Workers: answers in order, errors that stop the others, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from headwater.errors import InputError
from headwater.experiments.experiment import Experiment
from headwater.experiments.many_cores import Progress, WorkerKilledError, each_in_a_process

NAMES = ["a", "b", "c", "d", "e"]


def test_answers_come_in_order_and_are_seen_as_they_come() -> None:
    seen: list[int] = []

    def work(place: int, progress: Progress) -> int:
        progress(place + 1)
        time.sleep(0.01 * (5 - place))
        return place * place

    def watch(rounds: object, done: object) -> None:
        seen.extend(place for place, _ in done)  # type: ignore[attr-defined]

    assert each_in_a_process(work, NAMES, watch, processes=2) == [0, 1, 4, 9, 16]
    assert sorted(seen) == [0, 1, 2, 3, 4]
    assert each_in_a_process(work, [], watch) == []


def endless(progress: Progress) -> None:
    for round in range(10**9):
        progress(round)
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InputError("bad"), InputError),
        (OSError(28, "full", "x"), OSError),
        (KeyError(1), InputError),
    ],
)
def test_an_error_in_one_stops_the_others(error: Exception, kind: type[Exception]) -> None:
    def work(place: int, progress: Progress) -> None:
        if place == 1:
            raise error
        endless(progress)

    began = time.monotonic()
    with pytest.raises(kind) as caught:
        each_in_a_process(work, NAMES, processes=2)
    assert time.monotonic() - began < 15
    assert "0 of 5 finished" in caught.value.__notes__[0]


def test_an_error_in_a_user_s_own_code_is_one_line_with_its_place() -> None:
    def work(place: int, progress: Progress) -> None:
        raise KeyError("first line\nsecond line")

    line = work.__code__.co_firstlineno + 1
    with pytest.raises(InputError) as caught:
        each_in_a_process(work, ["a"], processes=1)
    said = str(caught.value)
    assert said.startswith(f"{__file__}, line {line}: KeyError: 'first line")
    assert "\n" not in said


def test_a_mistake_of_ours_keeps_its_traceback() -> None:
    with pytest.raises(RuntimeError, match=r"AttributeError in a worker:\nTraceback"):
        each_in_a_process(partial(Experiment.train, None), ["a"], processes=1)  # type: ignore[arg-type]


def test_a_killed_worker_is_one_line_that_says_which(tmp_path: Path) -> None:
    def work(place: int, progress: Progress) -> None:
        if place == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        endless(progress)

    with pytest.raises(WorkerKilledError, match=r"b: its process was killed .*the same command"):
        each_in_a_process(work, NAMES, processes=2)


ORPHANS = """
import os, sys, time
from headwater.experiments.many_cores import each_in_a_process
def work(place, progress):
    print(os.getpid(), flush=True)
    if place:
        time.sleep(600)
    return place
each_in_a_process(work, ["quick", "long"], lambda *_: None, processes=2)
"""


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


def test_idle_and_busy_workers_die_with_a_parent_that_is_killed() -> None:
    process = subprocess.Popen([sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    workers = [int(process.stdout.readline()) for _ in range(2)]
    time.sleep(0.5)  # one of them has nothing to do now
    process.kill()
    process.wait()
    latest = time.monotonic() + 10
    while any(alive(pid) for pid in workers) and time.monotonic() < latest:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in workers)
