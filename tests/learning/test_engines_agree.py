"""Every engine gives the plain loop's numbers, for all kinds of models, memories, strategies and
batches."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_federations import settings_of_a_ledger
from small_models import KINDS, SAMPLES, Kind
from torch import nn

import headwater as hw
from headwater.learning.algorithm import State, step
from headwater.learning.engines import Batched, Fused, Lockstep, Loop, Sequential, Workers
from headwater.learning.engines.groups import groups
from headwater.learning.federation import Federation
from headwater.learning.problem import Problem
from headwater.ledger.orders import LocalWork

RATE = 0.3


@pytest.fixture(autouse=True, params=["gradients of all layers unformed", "of large layers"])
def worth_it(request, monkeypatch):
    if request.param == "gradients of all layers unformed":
        monkeypatch.setattr("headwater.learning.engines.redirectable._WORTH_IT", 0)
        # The models here are narrow: without this, only the product for narrow ones would be taken.
        monkeypatch.setattr("headwater.learning.engines.by_autograd._NARROW", 0)


def some_ledger(strategy=None):
    """Three clients of unequal memories over the 24 samples: kept, newest, reservoir."""
    return hw.Ledger.of(
        [5, 9, 10],
        [hw.Once(), hw.Constant(2), hw.Constant(3)],
        [hw.Keep(), hw.Fifo(4), hw.Reservoir(5)],
        strategy or hw.Uniform(),
        rounds=4,
    )


def engines(problem, steps, batchable=True):
    yield Sequential(problem)
    if steps == 2:
        yield Workers(problem, Sequential, 2)
    if batchable:
        yield Batched(problem)
    if Lockstep.fits(problem):
        yield Lockstep(problem)
    if steps == 1:
        yield Fused(problem)
        yield Fused(problem, chunk=3)


def after_rounds(engine, problem, all_orders, rate=RATE):
    """θ after these rounds, with E local steps each."""
    state = State.start(problem.initial())
    for orders in all_orders:
        state, _ = step(state, orders, 0.25, engine, rate)
    return state.parameters


@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("name", KINDS)
def test_all_kinds_of_models_in_double_precision(name, steps, batch):
    problem = KINDS[name].problem()
    all_orders = list(LocalWork(steps, batch, seed=1).follow(some_ledger()))
    wanted = after_rounds(Loop(problem), problem, all_orders)
    assert (wanted - problem.initial()).norm() > 1e-3
    for engine in engines(problem, steps, KINDS[name].batchable):
        with closing(engine):
            got = after_rounds(engine, problem, all_orders)
        torch.testing.assert_close(
            got, wanted, rtol=0, atol=1e-10, msg=lambda m, e=engine: f"{type(e).__name__}: {m}"
        )


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("name", ["linear", "network", "convolution", "channels last", "recurrent"])
def test_single_precision(name, steps):
    problem = KINDS[name].problem(torch.float32)
    all_orders = list(LocalWork(steps, 3, seed=2).follow(some_ledger()))
    wanted = after_rounds(Loop(problem), problem, all_orders)
    for engine in engines(problem, steps, KINDS[name].batchable):
        with closing(engine):
            got = after_rounds(engine, problem, all_orders)
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


def strategies(clients):
    some = st.lists(st.integers(1, 5), min_size=clients, max_size=clients)
    return st.one_of(
        st.sampled_from([hw.Uniform(), hw.ByMemory(), hw.Historical(), hw.Fresh(), hw.Share(0.4)]),
        st.sampled_from([hw.Optimal(ratio=0.5), hw.Optimal(ratio=0.5, bound="sharp")]),
        some.map(lambda parts: hw.Importance(np.array(parts) / sum(parts))),
    )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(settings_of_a_ledger(most_clients=5), st.data())
def test_all_strategies_memories_and_batches(setting, data):
    strategy = data.draw(strategies(len(setting.counts)))
    local_work = LocalWork(
        local_steps=data.draw(st.sampled_from([1, 2, 3])),
        batch_size=data.draw(st.sampled_from([None, 1, 2, 4])),
        participation=data.draw(st.sampled_from([None, None, 0.5, 2])),
        seed=setting.seed,
    )
    try:
        all_orders = list(local_work.follow(hw.Ledger.weigh(setting.holdings(), strategy)))
    except hw.InputError:
        return  # nobody counts in some round: the tests of the ledger are about that
    torch.manual_seed(0)
    count = sum(setting.counts)
    x, y = torch.randn(count, 5, dtype=torch.float64), torch.randint(0, 4, (count,))
    problem = Problem(KINDS["network"].model().double(), x, y)
    wanted = after_rounds(Loop(problem), problem, all_orders)
    fast = [
        Sequential(problem),
        Batched(problem),
        *([Fused(problem)] if local_work.local_steps == 1 else []),
    ]
    for engine in fast:
        torch.testing.assert_close(
            after_rounds(engine, problem, all_orders), wanted, rtol=0, atol=1e-10
        )


def test_rows_of_a_common_tensor_are_the_same_as_samples_in_order():
    """A task's clients are row numbers of one tensor; samples in order are a special case of it."""
    problem = KINDS["network"].problem()
    order = torch.randperm(SAMPLES)
    x, y = torch.empty_like(problem.x), torch.empty_like(problem.y)
    x[order], y[order] = problem.x, problem.y
    scattered = Problem(problem.model, x, y, rows=order)
    all_orders = list(LocalWork(1, 3).follow(some_ledger()))
    wanted = after_rounds(Loop(problem), problem, all_orders)
    for engine in (Loop, Fused, Lockstep, Batched, Sequential):
        torch.testing.assert_close(
            after_rounds(engine(scattered), problem, all_orders), wanted, rtol=0, atol=1e-10
        )


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_groups_of_clients_that_step_together(monkeypatch, rows):
    monkeypatch.setattr("headwater.learning.engines.lockstep._ROWS", rows)
    monkeypatch.setattr("headwater.learning.engines.lockstep._NUMBERS", 0)
    problem = KINDS["network"].problem()
    all_orders = list(LocalWork(3, None).follow(some_ledger()))
    wanted = after_rounds(Loop(problem), problem, all_orders)
    torch.testing.assert_close(
        after_rounds(Lockstep(problem), problem, all_orders), wanted, rtol=0, atol=1e-10
    )


class Sometimes(nn.Module):
    """Does without its second layer in some of the steps."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(5, 4), nn.Linear(5, 4)

    def forward(self, x):
        return self.one(x) + self.two(x) if len(x) < 3 or float(x.sum()) > 0 else self.one(x)


def test_a_layer_that_is_not_used_in_every_step():
    problem = Kind(Sometimes).problem()
    ledger = hw.Ledger.of([24], hw.Once(), hw.Keep(), hw.Uniform(), rounds=3)
    all_orders = list(LocalWork(6, 3, seed=1).follow(ledger))
    used = [
        float(problem.x[torch.from_numpy(s)].sum()) > 0
        for orders in all_orders
        for s in orders.samples
    ]
    assert len(set(used)) == 2
    wanted = after_rounds(Loop(problem), problem, all_orders)
    torch.testing.assert_close(
        after_rounds(Lockstep(problem), problem, all_orders), wanted, rtol=0, atol=1e-10
    )


def test_a_client_with_a_large_batch_does_not_make_the_others_large():
    ledger = hw.Ledger.of([1] * 20 + [400], hw.Once(), hw.Keep(), hw.Uniform(), rounds=1)
    found = list(groups(LocalWork(1).orders(ledger.round(1)), lambda sizes: sizes, 384))
    assert [group.columns.shape for group in found] == [(20, 1), (1, 400)]


def test_forming_groups_costs_in_proportion_to_the_clients():
    looked_at = []

    def cost(sizes):
        looked_at.append(len(sizes))
        return sizes

    ledger = hw.Ledger.of([2] * 5000, hw.Once(), hw.Keep(), hw.Uniform(), rounds=1)
    found = list(groups(LocalWork(1).orders(ledger.round(1)), cost, 100))
    assert [len(group.shares) for group in found] == [50] * 100
    assert sum(looked_at) <= 2 * 5000


def test_groups_of_clients_that_do_not_fit_into_memory_together(monkeypatch):
    problem = KINDS["network"].problem()
    all_orders = list(LocalWork(2, None).follow(some_ledger()))
    wanted = after_rounds(Loop(problem), problem, all_orders)
    for room in (1, 1000, 3000):
        monkeypatch.setattr("headwater.learning.engines.batched._ELEMENTS", room)
        torch.testing.assert_close(
            after_rounds(Batched(problem), problem, all_orders), wanted, rtol=0, atol=1e-10
        )


def dropping():
    return nn.Sequential(nn.Linear(5, 40), nn.Dropout(0.5), nn.ReLU(), nn.Linear(40, 4))


@pytest.mark.parametrize("steps", [1, 2])
def test_dropout_draws_the_same_in_every_engine_that_takes_it(steps):
    problem = Kind(dropping).problem()
    all_orders = list(LocalWork(steps, 3).follow(some_ledger()))
    torch.manual_seed(1)
    wanted = after_rounds(Loop(problem), problem, all_orders)
    for make in (
        lambda: Sequential(problem),
        lambda: Workers(problem, Sequential, 2),
        lambda: Loop(problem),
    ):
        torch.manual_seed(99)  # the surroundings' draws must not matter
        with closing(make()) as engine:
            torch.testing.assert_close(
                after_rounds(engine, problem, all_orders), wanted, rtol=0, atol=1e-10
            )


def half_asleep():
    """A user's own arrangement: one of the modules does not train."""
    model = dropping()
    model[1].eval()
    return model


@pytest.mark.parametrize("steps", [1, 2])
def test_a_module_that_was_told_not_to_train_does_not(steps):
    problem = Kind(half_asleep).problem()
    all_orders = list(LocalWork(steps, 3).follow(some_ledger()))
    wanted = after_rounds(Loop(problem), problem, all_orders)
    for engine in engines(problem, steps):
        with closing(engine):
            got = after_rounds(engine, problem, all_orders)
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-10)


def test_dropout_draws_anew_for_every_round_client_and_step():
    """With a rate of 0.5 over 40 units, equal masks would give equal moves."""
    x, y = torch.ones(6, 5, dtype=torch.float64), torch.zeros(6, dtype=torch.int64)
    problem = Problem(dropping().double(), x, y)
    ledger = hw.Ledger.of([2, 2, 2], hw.Once(), hw.Keep(), hw.Uniform(), rounds=2)
    moves = [
        Loop(problem).moves(
            problem.initial(), LocalWork(1).orders(ledger.round(t)).part(k, k + 1), RATE
        )
        for t in (1, 2)
        for k in range(3)
    ]
    assert all((a - b).abs().max() > 1e-6 for i, a in enumerate(moves) for b in moves[:i])


def test_dropout_inside_a_recurrent_layer_is_drawn_by_the_seed_too():
    """Not every module that draws is called Dropout."""
    torch.manual_seed(0)
    model = Recurrent()
    x, y = torch.randn(8, 4, 3).numpy(), torch.randint(0, 3, (8,)).numpy()
    ends = []
    for surroundings in (1, 2):
        torch.manual_seed(surroundings)
        run = hw.simulate(
            model,
            [hw.Client(x[:4], y[:4]), hw.Client(x[4:], y[4:])],
            rounds=2,
            local_steps=2,
            seed=5,
        )
        ends.append(run.state.parameters)
    assert torch.equal(*ends)


class Recurrent(nn.Module):
    """A recurrent layer with dropout between its layers."""

    def __init__(self):
        super().__init__()
        self.inside = nn.LSTM(3, 3, num_layers=2, dropout=0.5, batch_first=True)

    def forward(self, x):
        return self.inside(x)[0][:, -1]


def test_a_model_that_mixes_the_samples_of_a_batch_is_refused():
    """Batch normalisation: a sample's loss depends on who else is in the batch, so engines could
    not agree."""
    model = nn.Sequential(
        nn.Linear(5, 6), nn.BatchNorm1d(6, track_running_stats=False), nn.Linear(6, 4)
    )
    client = hw.Client(np.random.default_rng(0).normal(size=(8, 5)), np.arange(8) % 4)
    with pytest.raises(hw.InputError, match="BatchNorm"):
        hw.simulate(model, [client, client], rounds=1)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("engine", "steps"),
    [("loop", 2), ("fused", 1), ("lockstep", 2), ("batched", 2), ("sequential", 2)],
)
def test_two_runs_have_the_same_bits(engine, steps, workers):
    kind = KINDS["network"].problem(torch.float32)
    bounds = [0, 5, 14, 24]
    clients = [hw.Client(kind.x[a:b], kind.y[a:b]) for a, b in pairwise(bounds)]
    runs = [
        hw.simulate(
            kind.model,
            clients,
            rounds=4,
            local_steps=steps,
            batch_size=3,
            seed=2,
            engine=engine,
            workers=workers,
        )
        for _ in range(2)
    ]
    assert torch.equal(runs[0].state.parameters, runs[1].state.parameters)
    assert torch.equal(runs[0].state.average, runs[1].state.average)
    assert runs[0].history == runs[1].history


def test_the_users_model_and_samples_are_not_touched():
    problem = KINDS["convolution"].problem(torch.float32)
    x, y = problem.x.clone(), problem.y.clone()
    before = [p.detach().clone() for p in problem.model.parameters()]
    for engine in ("loop", "fused", "batched", "sequential"):
        for workers in (0, 2):
            hw.simulate(
                problem.model,
                [hw.Client(problem.x, problem.y)],
                rounds=2,
                engine=engine,
                workers=workers,
            )
    assert all(
        torch.equal(a, b) and b.grad is None
        for a, b in zip(before, problem.model.parameters(), strict=True)
    )
    assert torch.equal(x, problem.x)
    assert torch.equal(y, problem.y)


def test_batches_of_images_are_laid_channels_last_for_a_convolution():
    """Batch by batch: the samples themselves stay where and how the user has them."""
    problem = KINDS["convolution"].problem(torch.float32)
    clients = [hw.Client(problem.x[:10], problem.y[:10]), hw.Client(problem.x[10:], problem.y[10:])]
    run = hw.simulate(problem.model, clients, rounds=1)
    assert run.problem.x.data_ptr() == problem.x.data_ptr()
    for rows in (torch.tensor([3, 1, 12]), slice(4, 9)):
        picked, _ = run.problem.take(rows)
        assert picked.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(picked, problem.x[rows])
    assert len(Federation.of(clients)) == 2
