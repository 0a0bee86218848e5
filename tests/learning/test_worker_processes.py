"""Worker processes: they share the work, die with their parent, and when one is killed the run says
so."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from process_table import PATIENCE, alive, gone, needs_proc
from small_models import KINDS
from torch.nn import Parameter

import headwater as hw
from headwater.learning.engines import Loop, Sequential, Workers
from headwater.learning.engines.parts import balanced
from headwater.ledger.orders import LocalWork

pytestmark = needs_proc


def work_of(counts, steps=2):
    return LocalWork(steps).orders(
        hw.Ledger.of(counts, hw.Once(), hw.Keep(), hw.Uniform(), rounds=1).round(1)
    )


def outcome_of(call):
    """What the call returns or raises; fails if it hangs."""
    answers = []

    def run():
        try:
            answers.append(call())
        except Exception as error:
            answers.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert answers, "hangs"
    return answers[0]


@pytest.mark.parametrize("count", [1, 3])
def test_the_parent_holds_few_vectors_as_long_as_the_model(count):
    """The caller's model, where the run began, θ and θ̄; and shared with the workers, θ and sums."""
    model = torch.nn.Linear(300, 300)
    x, y = torch.randn(40, 300), torch.arange(40)
    clients = [hw.Client(x[k : k + 10], y[k : k + 10]) for k in range(0, 40, 10)]
    found = []

    def look(_):
        gc.collect()
        tensors = [thing for thing in gc.get_objects() if type(thing) in (torch.Tensor, Parameter)]
        storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
        found.append(sum(size >= 4 * 300 * 300 for size in storages.values()))

    hw.simulate(model, clients, rounds=3, workers=count, progress=look)
    assert max(found) <= 4 + 1 + count


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("counts", [[24], [20, 4], [1, 1, 1, 21], [4, 4, 4, 4, 4, 4]])
def test_any_number_of_workers_gives_the_loops_numbers(counts, count):
    """Also fewer clients than workers."""
    problem, orders = KINDS["network"].problem(), work_of(counts)
    wanted = Loop(problem).moves(problem.initial(), orders, 0.3)
    with closing(Workers(problem, Sequential, count)) as engine:
        for _ in range(2):
            got = engine.moves(problem.initial(), orders, 0.3)
            torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("parts", [1, 2, 3, 8])
@pytest.mark.parametrize("counts", [[5], [1, 9, 2, 2], [3] * 10])
def test_clients_are_cut_into_runs_that_cover_everybody_once(counts, parts):
    edges = balanced(work_of(counts), parts)
    assert edges[0] == 0
    assert edges[-1] == len(counts)
    assert len(edges) == parts + 1
    assert edges == sorted(edges)


def test_work_is_shared_evenly():
    edges = balanced(work_of([10] * 8), 4)
    assert np.diff(edges).tolist() == [2, 2, 2, 2]


def test_closing_leaves_no_process_behind():
    engine = Workers(KINDS["linear"].problem(), Sequential, 3)
    pids = [process.pid for process in engine._processes]
    assert all(alive(pid) for pid in pids)
    engine.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)  # not even a zombie
    engine.close()  # twice does no harm


def test_engines_can_be_closed_in_any_order():
    """A worker forked later holds the earlier engine's pipes too; closing must not wait for it."""
    first, second = (Workers(KINDS["linear"].problem(), Sequential, 2) for _ in range(2))
    outcome_of(first.close)
    outcome_of(second.close)
    assert gone(*(process.pid for engine in (first, second) for process in engine._processes))


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_killed_worker_is_reported(victim):
    problem, orders = KINDS["network"].problem(), work_of([4] * 6)
    with closing(Workers(problem, Sequential, 3)) as engine:
        engine.moves(problem.initial(), orders, 0.1)
        os.kill(engine._processes[victim].pid, signal.SIGKILL)
        error = outcome_of(lambda: engine.moves(problem.initial(), orders, 0.1))
    assert isinstance(error, RuntimeError)
    assert f"worker {victim} of 3 was killed" in str(error)
    assert "\n" not in str(error)
    assert gone(*(process.pid for process in engine._processes))


class OwnError(Exception):
    """A user's own."""


class StubbornError(Exception):
    """One that pickle cannot make again: it asks for more than its message."""

    def __init__(self, one, other):
        super().__init__(f"{one} and {other}")


def raising(error):
    def loss(outputs, y):
        raise error

    return replace(KINDS["linear"].problem(), loss=loss)


def test_a_workers_own_error_is_passed_on():
    """As it would be without workers, and with the worker's own traceback."""
    problem, orders = KINDS["linear"].problem(), work_of([12, 12])
    problem.y[20] = 99  # there is no such class
    alone = outcome_of(lambda: Sequential(problem).moves(problem.initial(), orders, 0.1))
    with closing(Workers(problem, Sequential, 2)) as engine:
        error = outcome_of(lambda: engine.moves(problem.initial(), orders, 0.1))
    assert type(error) is type(alone)
    assert str(error) == str(alone)
    assert "99 is out of bounds" in str(error)
    assert str(error.__cause__).startswith("worker 1 failed:\nTraceback")


def test_a_users_error_can_be_caught_by_its_name():
    problem, orders = raising(OwnError("too hot")), work_of([12, 12])
    with closing(Workers(problem, Sequential, 2)) as engine:
        error = outcome_of(lambda: engine.moves(problem.initial(), orders, 0.1))
    assert type(error) is OwnError
    assert str(error) == "too hot"


def test_an_error_that_cannot_be_sent_is_told():
    problem, orders = raising(StubbornError("hot", "cold")), work_of([12, 12])
    with closing(Workers(problem, Sequential, 2)) as engine:
        error = outcome_of(lambda: engine.moves(problem.initial(), orders, 0.1))
    assert type(error) is RuntimeError
    assert "StubbornError: hot and cold" in str(error)


def test_an_interrupted_run_ends_its_workers():
    problem = KINDS["linear"].problem(torch.float32)
    before = set(children())

    def interrupt(record):
        assert len(set(children()) - before) == 2
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hw.simulate(
            problem.model,
            [hw.Client(problem.x, problem.y)] * 2,
            rounds=3,
            workers=2,
            progress=interrupt,
        )
    assert set(children()) <= before


def test_a_round_that_nobody_waits_for_is_not_waited_for():
    """Ctrl-C in the middle of a long round: the workers end at once, not after their round."""
    problem = KINDS["linear"].problem()
    engine = Workers(problem, Endless, 2)
    signal.signal(signal.SIGALRM, interrupted)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(KeyboardInterrupt):
        engine.moves(problem.initial(), work_of([12, 12]), 0.1)
    start = time.monotonic()
    engine.close()
    assert time.monotonic() - start < PATIENCE / 2
    assert gone(*(process.pid for process in engine._processes))


class Endless:
    """An engine whose round takes a day."""

    def __init__(self, problem):
        pass

    def moves(self, parameters, orders, learning_rate):
        time.sleep(86_400)


def interrupted(*_):
    raise KeyboardInterrupt


def children():
    return [
        int(pid)
        for pid in Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
    ]


def test_workers_do_not_outlive_a_killed_parent():
    problem = KINDS["linear"].problem()
    ours, theirs = os.pipe()
    parent = os.fork()
    if not parent:
        engine = Workers(problem, Sequential, 3)
        os.write(theirs, " ".join(str(process.pid) for process in engine._processes).encode())
        signal.pause()
    pids = [int(pid) for pid in os.read(ours, 1000).split()]
    assert len(pids) == 3
    assert all(alive(pid) for pid in pids)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    assert gone(*pids)
    os.close(ours)
    os.close(theirs)
