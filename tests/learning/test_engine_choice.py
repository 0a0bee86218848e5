"""The engine is chosen by the work at hand, and can be forced."""

from __future__ import annotations

from contextlib import closing

import pytest
import torch
from small_models import KINDS, Kind
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import headwater as hw
from headwater.learning.engines import (
    Batched,
    Fused,
    Lockstep,
    Loop,
    OneThread,
    Sequential,
    Workers,
    choose,
)
from headwater.learning.engines.operations import operations
from headwater.ledger.orders import LocalWork


def work_of(clients=3, steps=1):
    counts = [24 // clients] * clients
    return LocalWork(steps).orders(
        hw.Ledger.of(counts, hw.Once(), hw.Keep(), hw.Uniform(), rounds=1).round(1)
    )


def kind_of(engine):
    return type(engine.inside if isinstance(engine, OneThread) else engine)


def dropping():
    return nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, 4))


def tall():
    return nn.Sequential(
        nn.Linear(5, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 4)
    )


def wide():
    return nn.Sequential(nn.Linear(5, 1000), nn.ReLU(), nn.Linear(1000, 4))


@pytest.mark.parametrize(
    ("kind", "clients", "steps", "engine"),
    [
        (KINDS["network"], 3, 1, Fused),
        (KINDS["network"], 1, 1, Fused),
        (Kind(wide), 3, 1, Fused),
        (KINDS["network"], 3, 2, Lockstep),
        (KINDS["normalised"], 3, 2, Batched),
        (KINDS["network"], 1, 2, Sequential),
        (Kind(wide), 3, 2, Sequential),
        (KINDS["branching"], 3, 2, Lockstep),
        (Kind(tall), 3, 2, Lockstep),
        (Kind(tall), 3, 60, Sequential),
        (Kind(dropping), 3, 1, Sequential),
        (Kind(dropping), 3, 2, Sequential),
    ],
)
def test_the_work_decides(kind, clients, steps, engine):
    with closing(choose(kind.problem(torch.float32), work_of(clients, steps))) as chosen:
        assert kind_of(chosen) is engine


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("loop", Loop),
        ("fused", Fused),
        ("lockstep", Lockstep),
        ("batched", Batched),
        ("sequential", Sequential),
    ],
)
def test_an_engine_can_be_forced(name, engine):
    with closing(choose(KINDS["linear"].problem(), work_of(), name)) as chosen:
        assert kind_of(chosen) is engine


def test_an_unknown_engine_is_refused_with_those_that_exist():
    with pytest.raises(hw.InputError, match=r"loop, fused, lockstep, batched, sequential.*'turbo'"):
        choose(KINDS["linear"].problem(), work_of(), "turbo")


@pytest.mark.parametrize(("kind", "steps"), [(KINDS["linear"], 2), (Kind(dropping), 1)])
def test_the_fused_pass_is_refused_where_it_would_be_wrong(kind, steps):
    with pytest.raises(hw.InputError, match="engine 'fused'"):
        choose(kind.problem(), work_of(steps=steps), "fused")


@pytest.mark.parametrize("kind", [Kind(dropping), KINDS["branching"]])
def test_the_batched_pass_is_refused_where_it_cannot_work(kind):
    with pytest.raises(hw.InputError, match="engine 'batched'"):
        choose(kind.problem(), work_of(steps=2), "batched")


@pytest.mark.parametrize("kind", [Kind(dropping), KINDS["convolution"], KINDS["tied layers"]])
def test_lockstep_is_refused_where_it_would_be_wrong(kind):
    with pytest.raises(hw.InputError, match="engine 'lockstep'"):
        choose(kind.problem(), work_of(steps=2), "lockstep")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_workers_can_be_forced(count):
    with closing(choose(KINDS["linear"].problem(), work_of(), workers=count)) as chosen:
        assert kind_of(chosen) is Workers
        assert len(chosen._processes) == count


@pytest.mark.parametrize("count", [-1, 1.5, "two", True])
def test_an_impossible_number_of_workers_is_refused(count):
    with pytest.raises(hw.InputError, match="workers"):
        choose(KINDS["linear"].problem(), work_of(), workers=count).close()


def test_a_small_round_stays_in_this_process_and_a_large_one_is_spread_over_the_cores(monkeypatch):
    monkeypatch.setattr("headwater.learning.engines.choice.cores", lambda: 3)
    problem, orders = Kind(wide).problem(torch.float32), work_of(steps=2)
    with closing(choose(problem, orders)) as small:
        assert kind_of(small) is Sequential
    monkeypatch.setattr(
        "headwater.learning.engines.choice._WORTH_A_PROCESS",
        operations(problem) * orders.samples.size,
    )
    with closing(choose(problem, orders)) as large:
        assert kind_of(large) is Workers
        assert len(large._processes) == 3
    with closing(choose(problem, orders, workers=0)) as none:
        assert kind_of(none) is Sequential
    with closing(choose(problem, orders, "loop")) as specification:
        assert kind_of(specification) is Loop
    with closing(choose(problem, work_of(clients=1, steps=2))) as lonely:
        assert kind_of(lonely) is Sequential
    monkeypatch.setattr("headwater.learning.engines.choice.cores", lambda: 1)
    with closing(choose(problem, orders)) as single:
        assert kind_of(single) is Sequential


def test_a_system_without_fork_works_in_one_process(monkeypatch):
    monkeypatch.setattr("headwater.learning.engines.choice.can_fork", lambda: False)
    monkeypatch.setattr("headwater.learning.engines.choice._WORTH_A_PROCESS", 0)
    with closing(choose(KINDS["network"].problem(), work_of(steps=2))) as chosen:
        assert kind_of(chosen) is Lockstep
    with pytest.raises(hw.InputError, match="workers=0"):
        choose(KINDS["network"].problem(), work_of(steps=2), workers=2)


def test_operations_of_a_pass_are_counted():
    """A linear layer n → m costs 2·n·m forward, and twice that backward."""
    problem = Kind(lambda: nn.Linear(5, 4, bias=False)).problem()
    assert operations(problem) == 3 * 2 * 5 * 4


@pytest.mark.parametrize("name", KINDS)
def test_operations_are_those_of_pytorchs_own_counter(name):
    problem = KINDS[name].problem()
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        problem.model(problem.x[:1])
    assert operations(problem) == 3 * max(counter.get_total_flops(), 2 * problem.size)


def huge():
    return nn.Sequential(nn.Linear(5, 5000), nn.ReLU(), nn.Linear(5000, 5000), nn.Linear(5000, 4))


@pytest.mark.parametrize(
    ("model", "clients", "steps", "one"),
    [(wide, 3, 1, True), (wide, 3, 5, True), (huge, 3, 1, False), (huge, 1, 2, False)],
)
def test_small_passes_get_one_thread_and_large_ones_the_callers(model, clients, steps, one):
    problem = Kind(model).problem(torch.float32)
    with closing(choose(problem, work_of(clients, steps), "sequential", workers=0)) as chosen:
        assert isinstance(chosen, OneThread) is one


class Noting:
    """An engine that notes how many threads it has."""

    def __init__(self, fails=False):
        self.threads, self.closed, self.fails = [], False, fails

    def moves(self, parameters, orders, learning_rate):
        self.threads.append(torch.get_num_threads())
        if self.fails:
            raise ArithmeticError
        return parameters

    def close(self):
        self.closed = True


@pytest.mark.parametrize("fails", [False, True])
def test_the_caller_gets_the_threads_back(fails):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    noting = Noting(fails)
    try:
        with closing(OneThread(noting)) as engine:
            if fails:
                with pytest.raises(ArithmeticError):
                    engine.moves(torch.zeros(1), work_of(), 0.1)
            else:
                assert torch.equal(engine.moves(torch.ones(1), work_of(), 0.1), torch.ones(1))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert noting.threads == [1]
    assert noting.closed
