"""No process outlives its parent, and every end has words."""

from __future__ import annotations

import os
import signal
import time

import pytest
from process_table import PATIENCE, alive, gone, needs_proc

from headwater import processes
from headwater.processes import can_fork, cores, die_with_parent, how_it_ended

pytestmark = needs_proc


def grandchild(before_asking=lambda: None):
    """A child that forks a child that sleeps for long; both their numbers."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child:
        return child, int(os.read(ours, 100))
    me = os.getpid()
    pid = os.fork()
    if not pid:
        before_asking()
        die_with_parent(me)
        os.write(theirs, str(os.getpid()).encode())
        time.sleep(10 * PATIENCE)
        os._exit(0)
    signal.pause()
    os._exit(0)


@pytest.mark.parametrize("kernel", [True, False])
def test_a_process_dies_with_its_killed_parent(monkeypatch, kernel):
    """By the kernel's word where it gives one, by looking where it does not."""
    if not kernel:
        monkeypatch.setattr(processes, "_kill_me_with_my_parent", lambda: False)
    child, below = grandchild()
    assert alive(below)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert gone(below)


def test_a_parent_that_was_gone_before_it_was_asked_for():
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        if not os.fork():
            os.write(theirs, str(os.getpid()).encode())
            nobody = os.getpid()  # surely not the parent
            die_with_parent(nobody)
            time.sleep(10 * PATIENCE)
        os._exit(0)
    below = int(os.read(ours, 100))
    os.waitpid(child, 0)
    assert gone(below)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-9, "SIGKILL"),
        (-11, "was ended by SIGSEGV"),
        (0, "ended with code 0"),
        (None, "does not answer"),
    ],
)
def test_ends_in_words(code, words):
    assert words in how_it_ended(code)


def test_cores_are_those_this_process_may_use():
    assert cores() == len(os.sched_getaffinity(0))
    assert can_fork()
