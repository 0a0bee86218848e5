"""A node trains as the simulator does, answers once, and gives away nothing but moves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from nodes import Parameters, federation, node_settings, play, samples, train, write_csv

import headwater as hw
from headwater.devices.node import models
from headwater.devices.node.node import Node
from headwater.devices.node.training import local_move
from headwater.devices.wire import Frame

CLIENTS = [
    (20, hw.Once(), {"kind": "once"}, hw.Keep(), {"rule": "keep"}),
    (
        60,
        hw.Constant(4),
        {"kind": "constant", "rate": 4},
        hw.Fifo(6),
        {"rule": "fifo", "capacity": 6},
    ),
    (
        50,
        hw.Poisson(3.0),
        {"kind": "poisson", "rate": 3.0},
        hw.Reservoir(9),
        {"rule": "reservoir", "capacity": 9},
    ),
]


@pytest.fixture
def node(tmp_path):
    """A node with twelve samples that are there from the start, and a test set."""
    path = write_csv(tmp_path / "s.csv", *samples(12))
    source = {"kind": "csv", "path": path, "arrivals": {"kind": "once"}}
    made = Node(node_settings(tmp_path / "n", source=source, test={"csv": path}))
    yield made
    made.close()


@pytest.mark.parametrize("strategy", [hw.Uniform(), hw.Share(historical=0.6)])
@pytest.mark.parametrize(("local_steps", "batch_size"), [(1, None), (1, 4), (3, None), (5, 4)])
def test_nodes_learn_what_the_simulator_learns(tmp_path, strategy, local_steps, batch_size):
    rounds, rate, seed = 12, 0.3, 5
    clients, nodes = federation(tmp_path, CLIENTS, seed)
    model = torch.nn.Linear(3, 3)
    run = hw.simulate(model, clients, strategy, rounds, local_steps, batch_size, rate, seed)
    got = play(nodes, run.ledger, model, rounds, local_steps, batch_size, rate, seed)
    start = torch.cat([p.detach().reshape(-1) for p in model.parameters()]).numpy()
    learned = run.state.parameters.numpy()
    assert np.abs(learned - start).max() > 0.05
    np.testing.assert_allclose(got, learned, rtol=0, atol=1e-6)
    for each in nodes:
        each.close()


def test_the_batches_are_those_of_the_client_and_round(node):
    """Mini-batches must depend on every part of the key, or the test above proves little."""
    parameters = Parameters.of(node)
    usual = {"batch_size": 3, "round": 1, "client": 0, "seed": 0}
    moves = [
        train(node, parameters, run=str(k), **{**usual, **other}).arrays["move"]
        for k, other in enumerate([{}, {}, {"round": 2}, {"client": 1}, {"seed": 1}])
    ]
    np.testing.assert_array_equal(moves[0], moves[1])
    assert all(np.abs(moves[0] - move).max() > 1e-4 for move in moves[2:])


def test_a_move_is_that_of_the_formula(node):
    """One full step of softmax regression, by hand."""
    parameters = Parameters.of(node).astype(np.float64)
    x, y = samples(12)
    weights = np.arange(12.0)
    matrix, bias = parameters[:9].reshape(3, 3), parameters[9:]
    logits = x @ matrix.T + bias
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    slope = (chances - np.eye(3)[y]) * (weights / weights.sum())[:, None]
    expected = -0.5 * np.concatenate([(slope.T @ x).ravel(), slope.sum(0)])
    arrays = {"positions": np.arange(12), "weights": weights}
    reply = train(node, parameters.astype(np.float32), arrays=arrays, learning_rate=0.5)
    np.testing.assert_allclose(reply.arrays["move"], expected, atol=1e-6)
    assert reply.header["samples"] == 11  # the one of weight zero needs no gradient


def test_describe_tells_counts_and_no_samples(node):
    about = node.answer(Frame({"do": "describe"}))
    assert not about.arrays
    expected = {
        "client": "a",
        "number": 0,
        "memory": "Keep",
        "capacity": None,
        "historical": True,
        "declared": {"kind": "once", "samples": 12},
        "parameters": 12,
        "arrived": 0,
        "held": 0,
        "test_samples": 12,
    }
    assert {name: about.header[name] for name in expected} == expected
    assert about.header["schema"]["features"] == {"shape": [3], "dtype": "float32"}
    train(node, Parameters.of(node))
    assert node.answer(Frame({"do": "describe"})).header["arrived"] == 12


def test_the_same_request_gets_the_same_reply_after_a_restart_and_more_arrivals(tmp_path):
    path = write_csv(tmp_path / "s.csv", *samples(12))
    source = {"kind": "csv", "path": path, "arrivals": {"kind": "constant", "rate": 3}}
    settings = node_settings(tmp_path / "n", source=source)
    first = Node(settings)
    parameters = Parameters.of(first)
    reply = train(first, parameters, round=2)
    assert reply.header["arrived"] == 6
    train(first, parameters, run="another", round=4)
    first.close()
    second = Node(settings)
    again = train(second, parameters, round=2)
    assert again.header == reply.header
    np.testing.assert_array_equal(again.arrays["move"], reply.arrays["move"])
    other = train(second, parameters + 1, round=2)  # another question, worked out anew
    assert other.header["arrived"] == 12
    assert train(second, parameters, round=1).header["error"] == "stale"
    second.close()


def test_only_the_last_runs_are_remembered(node):
    parameters = Parameters.of(node)
    for number in range(10):
        train(node, parameters, run=str(number))
    assert node.database.rows("SELECT COUNT(*) FROM reply") == [(4,)]


@pytest.mark.parametrize(
    ("order", "arrays", "code", "says"),
    [
        ({"round": 0}, {}, "bad request", "round"),
        ({"learning_rate": -1.0}, {}, "bad request", "learning_rate"),
        ({"batch_size": 0}, {}, "bad request", "batch_size"),
        ({"round": "2"}, {}, "bad request", "round"),
        ({}, {"parameters": np.zeros(5, np.float32)}, "parameters differ", "12 parameters"),
        ({}, {"parameters": np.zeros(12)}, "parameters differ", "float64"),
        ({}, {"parameters": np.full(12, np.nan, np.float32)}, "bad request", "finite"),
        ({}, {"positions": np.arange(12)}, "bad request", "weights"),
        ({}, {"positions": np.arange(11), "weights": np.ones(11)}, "holdings differ", "12 samples"),
        ({}, {"positions": np.arange(12), "weights": -np.ones(12)}, "bad request", "weights"),
        ({}, {"positions": np.arange(12), "weights": np.zeros(12)}, "bad request", "weights"),
        ({"learning_rate": 1e38, "local_steps": 9}, {}, "diverged", "not finite"),
    ],
)
def test_requests_that_cannot_be_done_are_refused_with_a_reason(node, order, arrays, code, says):
    reply = train(node, Parameters.of(node), arrays=arrays, **order)
    assert reply.header["error"] == code
    assert says in reply.header["message"]
    assert not reply.arrays
    assert "error" not in train(node, Parameters.of(node)).header  # and the node goes on


def test_unknown_requests_are_refused(node):
    assert node.answer(Frame({"do": "dump"})).header["error"] == "bad request"
    assert node.answer(Frame({})).header["error"] == "bad request"


def test_a_node_without_samples_says_so(tmp_path):
    empty = Node(node_settings(tmp_path / "n"))
    assert train(empty, Parameters.of(empty)).header["error"] == "empty"
    empty.close()


def test_a_move_is_no_longer_than_allowed(node):
    parameters = Parameters.of(node)
    free = train(node, parameters, run="free", learning_rate=5.0).arrays["move"]
    short = train(node, parameters, run="short", learning_rate=5.0, norm_limit=0.5).arrays["move"]
    assert np.linalg.norm(free) > 0.5
    np.testing.assert_allclose(short, free * 0.5 / np.linalg.norm(free), rtol=1e-5)


def test_evaluation_is_on_the_nodes_own_test_samples(node, tmp_path):
    parameters = Parameters.of(node)
    reply = node.answer(Frame({"do": "evaluate"}, {"parameters": parameters}))
    x, y = samples(12)
    logits = x @ parameters[:9].reshape(3, 3).T + parameters[9:]
    likely = np.log(np.exp(logits).sum(1)) - logits[np.arange(12), y]
    assert reply.header["count"] == 12
    assert reply.header["loss"] == pytest.approx(likely.mean(), abs=1e-6)
    assert reply.header["metric"] == pytest.approx((logits.argmax(1) == y).mean())
    without = Node(node_settings(tmp_path / "other"))
    reply = without.answer(Frame({"do": "evaluate"}, {"parameters": parameters}))
    assert reply.header["error"] == "no test samples"
    without.close()


def test_samples_are_predicted_before_they_are_trained_on(tmp_path):
    """Prequential: round t's samples by θ(t), each once, whatever is asked again."""
    x, y = samples(12)
    path = write_csv(tmp_path / "s.csv", x, y)
    source = {"kind": "csv", "path": path, "arrivals": {"kind": "constant", "rate": 4}}
    node = Node(node_settings(tmp_path / "n", source=source))
    vectors = [Parameters.of(node, seed) for seed in range(3)]
    for t, vector in enumerate(vectors, 1):
        train(node, vector, round=t)
        reply = train(node, vector, round=t)
    losses, right = [], []
    for t, vector in enumerate(vectors):
        part = slice(4 * t, 4 * t + 4)
        logits = x[part] @ vector[:9].reshape(3, 3).T + vector[9:]
        losses += list(np.log(np.exp(logits).sum(1)) - logits[np.arange(4), y[part]])
        right += list(logits.argmax(1) == y[part])
    score = reply.header["prequential"]
    assert score["count"] == 12
    assert score["loss"] == pytest.approx(np.mean(losses), abs=1e-6)
    assert score["metric"] == pytest.approx(np.mean(right))
    fading = 0.995 ** np.arange(11, -1, -1)
    assert score["recent_loss"] == pytest.approx(fading @ losses / fading.sum(), abs=1e-6)
    node.close()


SAMPLES = {
    "features": ["a", "b"],
    "label": "rain",
    "classes": ["no", "yes"],
    "scaling": {"a": {"mean": 10, "scale": 5}},
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"features": ["b", "a"]}, r'features = \["a", "b"\], the settings say \["b", "a"\]'),
        ({"label": "snow"}, r'label = "rain", the settings say "snow"'),
        ({"classes": ["yes", "no"]}, r'classes = \["no", "yes"\], the settings say'),
        ({"scaling": {}}, r'scaling = {"a": \[10.0, 5.0\]}, the settings say {}; put'),
        (
            {"scaling": {"b": {"mean": 10, "scale": 5}}},
            r'scaling = .*, the settings say {"b": \[10.0, 5.0\]}',
        ),
    ],
)
def test_a_memory_whose_numbers_mean_something_else_is_refused(tmp_path, change, says):
    Node(node_settings(tmp_path, samples=SAMPLES)).close()
    with pytest.raises(hw.InputError, match=r"memory\.db: its samples have " + says):
        Node(node_settings(tmp_path, samples={**SAMPLES, **change}))
    same = {"scaling": {"a": {"range": [10, 15]}, "b": {"range": [0, 1]}}}  # in other words
    Node(node_settings(tmp_path, samples={**SAMPLES, **same})).close()


def test_a_memory_of_before_takes_the_meaning_of_its_next_settings(tmp_path):
    node = Node(node_settings(tmp_path, samples=SAMPLES))
    with node.database.transaction() as connection:
        connection.execute("DELETE FROM state WHERE name = 'meaning'")
    node.close()
    swapped = {**SAMPLES, "features": ["b", "a"]}
    Node(node_settings(tmp_path, samples=swapped)).close()
    with pytest.raises(hw.InputError, match="features"):
        Node(node_settings(tmp_path, samples=SAMPLES))


def test_a_reply_counts_what_was_trained_on(tmp_path, monkeypatch):
    """What arrives while a node trains belongs to the next round, in the numbers as well."""
    node = Node(node_settings(tmp_path / "n"))
    message = {"a": 1, "b": 2, "c": 3, "label": 1}
    node.intake.take([message] * 3)

    def busy(*arguments):
        node.intake.take([message] * 5)
        return local_move(*arguments)

    monkeypatch.setattr("headwater.devices.node.node.local_move", busy)
    reply = train(node, Parameters.of(node))
    assert (reply.header["arrived"], reply.header["held"]) == (3, 3)
    assert node.memory.arrived == 8
    node.close()


def test_a_rehearsal_leaves_no_trace(node):
    before = node.problem.initial().clone(), node.describe().header
    assert node.warm_up() > 0
    assert torch.equal(node.problem.initial(), before[0])
    assert {**node.describe().header, "rate": 0.0} == {**before[1], "rate": 0.0}


def test_dropout_is_seeded_and_does_not_disturb_the_rest(tmp_path, monkeypatch):
    (tmp_path / "dropping.py").write_text(
        "from torch import nn\n"
        "def make(): return nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 3))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    path = write_csv(tmp_path / "s.csv", *samples(12))
    source = {"kind": "csv", "path": path, "arrivals": {"kind": "once"}}
    model = {"kind": "python", "make": "dropping:make"}
    node = Node(node_settings(tmp_path / "n", source=source, model=model))
    parameters = Parameters.of(node)
    before = torch.get_rng_state()
    moves = [
        train(node, parameters, run=run, local_steps=2, seed=seed).arrays["move"]
        for run, seed in (("a", 0), ("b", 0), ("c", 1))
    ]
    np.testing.assert_array_equal(moves[0], moves[1])
    assert np.abs(moves[0] - moves[2]).max() > 1e-4
    assert torch.equal(before, torch.get_rng_state())
    node.close()


def test_a_loss_has_one_meaning_on_devices_and_in_simulations():
    assert models.LOSSES["squared_error"] is hw.squared_error
    assert models.LOSSES["cross_entropy"] is hw.cross_entropy
    assert models.METRICS["absolute_error"] is hw.absolute_error
