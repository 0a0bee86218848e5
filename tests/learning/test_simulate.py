"""simulate(): what it records, when it tests, what it leaves alone, and that it does not grow."""

from __future__ import annotations

import copy
import gc
import tracemalloc

import numpy as np
import pytest
import torch
from torch import nn

import headwater as hw


def data(count, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 3))
    return x, (x @ [1, -2, 0.5] > 0).astype(int)


def federation(test=True):
    """A client that keeps 6, one that sees 2 a round and keeps 4, one that is there for two
    rounds."""
    x, y = data(40)
    tests = [(x[30:35], y[30:35]), (x[35:], y[35:]), (x[30:], y[30:])] if test else [None] * 3
    return [
        hw.Client(x[:6], y[:6], test=tests[0]),
        hw.Client(x[6:26], y[6:26], hw.Constant(2), hw.Fifo(4), test=tests[1]),
        hw.Client(x[26:30], y[26:30], hw.Window(3, 4), test=tests[2]),
    ]


def linear(seed=0):
    torch.manual_seed(seed)
    return nn.Linear(3, 2)


def test_one_record_a_round_that_says_what_happened():
    run = hw.simulate(
        linear(), federation(), rounds=5, local_steps=2, batch_size=3, learning_rate=0.2
    )
    assert [r.round for r in run.history] == [1, 2, 3, 4, 5]
    assert {r.learning_rate for r in run.history} == {0.2}
    np.testing.assert_array_equal([r.share for r in run.history], run.ledger.round_shares)
    assert [r.clients for r in run.history] == [2, 2, 3, 3, 2]
    # gradients: two steps of min(3, memory); the fresh client holds 2, then 4
    assert [r.samples for r in run.history] == [
        2 * n for n in (3 + 2, 3 + 3, 3 + 3 + 3, 3 + 3 + 3, 3 + 3)
    ]
    assert all(r.move > 0 for r in run.history)


def test_progress_sees_every_record_in_turn():
    seen = []
    run = hw.simulate(linear(), federation(), rounds=4, progress=seen.append)
    assert seen == run.history


@pytest.mark.parametrize(
    ("every", "tested"),
    [(1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (5, [5]), (9, [5]), (0, []), (None, [1, 2, 3, 4, 5])],
)
def test_tests_come_every_so_many_rounds_and_at_the_end(every, tested):
    run = hw.simulate(linear(), federation(), rounds=5, test_every=every)
    assert [r.round for r in run.history if r.accuracy is not None] == tested
    assert [r.round for r in run.history if r.loss is not None] == tested


def test_twenty_tests_in_a_run_unless_told_otherwise():
    x, y = data(8)
    run = hw.simulate(linear(), [hw.Client(x, y, test=(x, y))], rounds=100)
    assert [r.round for r in run.history if r.accuracy is not None] == list(range(5, 101, 5))


def test_without_test_sets_nothing_is_tested():
    run = hw.simulate(linear(), federation(test=False), rounds=3)
    assert {r.accuracy for r in run.history} == {None}


def test_accuracy_and_loss_are_means_over_clients_of_the_new_model():
    """Clients have 5, 5 and 10 test samples and count alike; what is tested is θ(t + 1)."""
    clients = federation()
    run = hw.simulate(linear(), clients, rounds=3, test_every=1)
    for t, record in enumerate(run.history, start=1):
        model = hw.simulate(
            linear(), clients, hw.Given(lambda s, run=run: run.ledger.weights_at(s)), rounds=t
        ).model
        accuracies, losses = [], []
        with torch.no_grad():
            for client in clients:
                logits, labels = model(client.test[0].float()), client.test[1]
                accuracies.append((logits.argmax(1) == labels).double().mean().item())
                losses.append(nn.functional.cross_entropy(logits, labels).item())
        assert record.accuracy == pytest.approx(np.mean(accuracies))
        assert record.loss == pytest.approx(np.mean(losses), rel=1e-5)


def test_a_metric_and_a_loss_of_ones_own():
    x, _ = data(12)
    target = x[:, 0].astype(np.float32)
    client = hw.Client(x, target, test=(x, target))
    run = hw.simulate(
        nn.Linear(3, 1),
        [client],
        rounds=2,
        test_every=1,
        learning_rate=0.01,
        loss=lambda out, y: (out[:, 0] - y) ** 2,
        metrics={"error": lambda out, y: (out[:, 0] - y).abs()},
    )
    with torch.no_grad():
        error = run.model(torch.tensor(x, dtype=torch.float32))[:, 0] - torch.tensor(target)
    assert run.history[-1].metrics == {"error": pytest.approx(error.abs().mean().item(), rel=1e-5)}
    assert run.history[-1].accuracy is None
    assert run.history[-1].loss == pytest.approx(error.square().mean().item(), rel=1e-5)


def test_a_schedule_of_learning_rates():
    run = hw.simulate(linear(), federation(), rounds=4, learning_rate=lambda t: 1 / t)
    assert [r.learning_rate for r in run.history] == [1, 1 / 2, 1 / 3, 1 / 4]


def test_the_models_are_the_last_iterate_and_the_average():
    run = hw.simulate(linear(), federation(), rounds=6)
    for model, vector in ((run.model, run.state.parameters), (run.average, run.state.average)):
        assert torch.equal(torch.cat([p.detach().reshape(-1) for p in model.parameters()]), vector)
    assert not torch.equal(run.state.parameters, run.state.average)


def test_the_average_is_the_shares_times_the_iterates():
    """θ(t) is where a run of t − 1 rounds with the same weights ends; θ(1) is the start."""
    clients, model = federation(), linear()
    run = hw.simulate(model.double(), clients, rounds=5, local_steps=2)
    iterates = [torch.cat([p.detach().reshape(-1) for p in model.parameters()])]
    for t in range(1, 5):
        weights = hw.Given(lambda s: run.ledger.weights_at(s))
        iterates.append(
            hw.simulate(model, clients, weights, rounds=t, local_steps=2).state.parameters
        )
    mean = sum(
        q * theta for q, theta in zip(run.ledger.round_shares.tolist(), iterates, strict=True)
    )
    torch.testing.assert_close(run.state.average, mean, rtol=1e-12, atol=1e-14)


def test_the_users_model_is_not_changed():
    model = linear()
    before = copy.deepcopy(model.state_dict())
    run = hw.simulate(model, federation(), rounds=3, local_steps=2, batch_size=2)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training
    assert run.model is not model


def test_another_seed_draws_other_batches_and_the_same_seed_the_same():
    ends = [
        hw.simulate(linear(), federation(), rounds=4, batch_size=2, seed=s).state.parameters
        for s in (1, 1, 2)
    ]
    assert torch.equal(ends[0], ends[1])
    assert not torch.equal(ends[0], ends[2])


def test_the_surroundings_draws_do_not_matter_and_are_left_alone():
    """Dropout is seeded by the run; the global generator goes on where it was."""
    model = nn.Sequential(nn.Linear(3, 20), nn.Dropout(0.5), nn.Linear(20, 2))
    ends = []
    for surroundings in (3, 4):
        torch.manual_seed(surroundings)
        ends.append(
            hw.simulate(model, federation(), rounds=3, local_steps=2, workers=0).state.parameters
        )
    assert torch.equal(*ends)
    after = torch.rand(3)
    torch.manual_seed(4)
    assert torch.equal(after, torch.rand(3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_model_of_either_precision_learns_and_is_tested(dtype):
    run = hw.simulate(linear().to(dtype), federation(), rounds=2, test_every=1)
    assert run.state.parameters.dtype == dtype
    assert all(0 <= r.accuracy <= 1 for r in run.history)


def test_a_run_does_not_grow_with_its_rounds():
    """Beyond a record a round: a round's row numbers and weights alone are 8 kB here."""
    x, y = data(900)
    client = hw.Client(x, y, hw.Constant(1), hw.Fifo(500))
    sizes, tensors = {}, {}

    def measure(record):
        if record.round in (520, 880):
            sizes[record.round] = tracemalloc.get_traced_memory()[0]
            tensors[record.round] = sum(issubclass(type(thing), torch.Tensor) for thing in live())

    tracemalloc.start()
    try:
        hw.simulate(
            linear(), [client], hw.ByMemory(), rounds=900, test_every=0, workers=0, progress=measure
        )
    finally:
        tracemalloc.stop()
    assert sizes[880] - sizes[520] < 360 * 1000
    assert tensors[880] <= tensors[520] + 2


def live():
    gc.collect()
    return gc.get_objects()


def test_prequential_scores_are_those_of_the_model_before_each_round():
    """θ(t) is where a run of t − 1 rounds with the same weights ends."""
    clients, model = federation(test=False), linear()
    run = hw.simulate(model, clients, hw.ByMemory(), rounds=5, prequential=True)
    x, y = clients[1].tensors  # two samples a round; client 0 is historical, client 2 comes late
    late, labels = clients[2].tensors
    right = []
    for t in range(1, 6):
        before = model
        if t > 1:
            before = hw.simulate(model, clients, hw.ByMemory(), rounds=t - 1).model
        new, truth = x[2 * t - 2 : 2 * t], y[2 * t - 2 : 2 * t]
        if t == 3:
            new, truth = torch.cat([new, late]), torch.cat([truth, labels])
        hits = (before(new.float()).argmax(1) == truth).double()
        right += hits.tolist()
        record = run.history[t - 1]
        assert record.arrived == len(truth)
        assert record.prequential["accuracy"] == pytest.approx(hits.mean().item())
    assert run.prequential["accuracy"] == pytest.approx(np.mean(right))
    assert len(right) == 14


def test_without_prequential_tests_nothing_is_recorded_and_nothing_else_changes():
    runs = [hw.simulate(linear(), federation(), rounds=3, prequential=p) for p in (False, True)]
    assert runs[0].prequential == {}
    assert {record.arrived for record in runs[0].history} == {0}
    assert torch.equal(runs[0].state.parameters, runs[1].state.parameters)
