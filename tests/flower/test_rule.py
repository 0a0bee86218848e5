"""Late, absent and failed clients: one rule, and what it does to the shares."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord
from test_same_answer import initial, simulated, vector

import headwater as hw
from headwater.devices.wire import Frame
from headwater.flower import StreamFedAvg, messages
from headwater.flower.journal import Journal
from headwater.flower.messages import flatten
from headwater.flower.patience import QuorumError

SOON = {"deadline": 0.15, "ask_again": 0.1, "min_clients": 3}


def of_round(number, node=None):
    """Does a message train this round (at this node)?"""

    def matches(message):
        meta = message.metadata
        mine = meta.message_type == "train" and node in (None, meta.dst_node_id)
        return mine and meta.group_id == str(number)

    return matches


def entries(folder):
    return Journal(folder / "rounds.jsonl").read()


@pytest.mark.parametrize("code", [3, 4, 5, 8, messages.AWAY])
def test_a_failed_client_is_asked_again_and_nothing_changes(fleet, code):
    failures = [code, code]
    second = of_round(2, 99)
    fleet.fail = lambda message: failures.pop() if failures and second(message) else None
    result = StreamFedAvg(min_clients=3, ask_again=30.0).start(fleet, initial(), 3)
    run = simulated(hw.Uniform(), 3)
    np.testing.assert_allclose(flatten(result.arrays), vector(run.model), atol=1e-6)
    asked = [m for m in fleet.sent if of_round(2, 99)(m)]
    assert len(asked) == 3


def test_a_lost_message_is_sent_again_before_the_deadline(fleet):
    lost = []
    second = of_round(2, 99)
    fleet.lose = lambda message: second(message) and not lost and not lost.append(message)
    result = StreamFedAvg(min_clients=3, ask_again=0.1).start(fleet, initial(), 3)
    assert lost
    run = simulated(hw.Uniform(), 3)
    np.testing.assert_allclose(flatten(result.arrays), vector(run.model), atol=1e-6)


def test_a_client_that_does_not_answer_is_asked_less_and_less_often(fleet):
    """A slow node that is asked again and again would never be through with old questions."""
    fleet.lose = of_round(1, 99)
    settings = {"deadline": 1.5, "ask_again": 0.1, "min_clients": 3}
    StreamFedAvg(**settings).start(fleet, initial(), 1)
    asked = [message for message in fleet.sent if of_round(1, 99)(message)]
    assert 3 <= len(asked) <= 4  # at 0, 0.1, 0.3, 0.7 s; every 0.1 s it would be 15


def greetings(fleet, node):
    return [
        message
        for message in fleet.sent
        if message.metadata.message_type == messages.DESCRIBE
        and message.metadata.dst_node_id == node
    ]


def test_a_node_that_does_not_say_who_it_is_is_asked_less_and_less_often(fleet):
    fleet.lose = lambda message: message in greetings(fleet, 99)
    with pytest.raises(QuorumError):
        StreamFedAvg(min_clients=3, ask_again=0.1, patience=1.5).start(fleet, initial(), 1)
    assert 3 <= len(greetings(fleet, 99)) <= 5  # at 0, 0.1, 0.3, 0.7, 1.5 s


def test_who_replays_by_rounds_is_not_asked_again_before_its_first(fleet):
    slow = fleet.answer

    def later(message):
        time.sleep(0.15)
        return slow(message)

    fleet.answer = later
    StreamFedAvg(min_clients=3, ask_again=0.1).start(fleet, initial(), 3)
    assert [len(greetings(fleet, node)) for node in fleet.nodes] == [1, 1, 1]


def test_a_node_that_says_who_it_is_rounds_later_is_met(fleet, tmp_path):
    """Its greeting is not forgotten with the round, nor sent a second time."""
    held, pull = [], fleet.pull_messages

    def late(numbers):
        """What node 98 says first is held back until round 3."""
        found = [reply for reply in pull(numbers) if not _first_words(reply, held)]
        if held and any(m.metadata.group_id == "3" for m in fleet.sent):
            found.append(held.pop())
        return found

    fleet.pull_messages = late
    for toy in fleet.toys:
        toy.declared, toy.arrived = None, 5
    strategy = StreamFedAvg(min_clients=2, ask_again=60.0, checkpoint=tmp_path / "run")
    strategy.start(fleet, initial(), 5)
    assert [len(entry.client) for entry in entries(tmp_path / "run")] == [2, 2, 2, 3, 3]
    assert len(greetings(fleet, 98)) == 1


def _first_words(reply, held):
    first = "node2" in str(reply.content.config_records.get("config")) and not held
    if first:
        held.append(reply)
    return first


def test_the_share_of_an_absent_client_is_given_to_nobody(fleet, tmp_path):
    fleet.lose = of_round(1, 99)
    strategy = StreamFedAvg(checkpoint=tmp_path / "run", catch_up=1.0, **SOON)
    result = strategy.start(fleet, initial(), 1)
    ledger = simulated(hw.Uniform(), 1).ledger
    (entry,) = entries(tmp_path / "run")
    planned = ledger.client_shares[0]
    np.testing.assert_allclose(entry.planned, planned)
    np.testing.assert_allclose(entry.counted, planned * [1, 0, 1])
    assert entry.refused == {"1": "no answer"}
    assert entry.share == pytest.approx(1 - planned[1])
    moved = flatten(result.arrays) - flatten(initial())
    expected = sum(planned[m] * move_of(fleet.toys[m]) for m in (0, 2))
    np.testing.assert_allclose(moved, expected, atol=1e-6)


def move_of(toy):
    (reply,) = toy.replies.values()
    return reply.arrays["move"]


def test_a_client_that_is_often_absent_counts_more_when_it_comes(fleet, tmp_path):
    fleet.lose = of_round(1, 99)
    StreamFedAvg(checkpoint=tmp_path / "run", **SOON).start(fleet, initial(), 4)
    second, third = entries(tmp_path / "run")[1:3]
    # It answered 0 of 1, then 1 of 2, with one answer given on trust: a = 1/2, then 2/3.
    assert second.counted[1] == pytest.approx(second.planned[1] * 2)
    assert third.counted[1] == pytest.approx(third.planned[1] * 3 / 2)
    assert second.counted[0] == second.planned[0]


def test_nobodys_importance_is_distorted_by_absences_of_different_frequency():
    """Monte-Carlo: what the rule promises, with the frequencies that it estimates on the way."""
    from headwater.flower.reports import reported
    from headwater.flower.roster import Standing

    rng = np.random.default_rng(0)
    shares, frequency = np.array([0.6, 0.3, 0.1]), np.array([0.9, 0.5, 0.3])
    clients = [Standing(str(m), m, 1, 1, None, "Keep", 0.0, True) for m in range(3)]
    counted = np.zeros(3)
    rounds = 20_000
    for round in range(1, rounds + 1):
        came = rng.random(3) < frequency
        for m, client in enumerate(clients):
            if came[m]:
                counted[m] += shares[m] * min(4.0, 1 / client.availability)
            changes = reported(client, {} if came[m] else None, round)
            clients[m] = type(client)(**vars(client) | changes)
    np.testing.assert_allclose(counted / rounds, shares, rtol=0.03)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda move: np.full_like(move, np.nan), "not finite"),
        (lambda move: move[:-1], "shape"),
        (lambda move: move * 1e6, "norm_limit"),
    ],
)
def test_an_update_that_cannot_be_is_refused_and_named(fleet, tmp_path, spoil, why, caplog):
    def answer(header, reply):
        if header["round"] == 2:
            return Frame(reply.header, {"move": spoil(reply.arrays["move"])})
        return reply

    fleet.toys[1].spoil = answer
    strategy = StreamFedAvg(min_clients=3, norm_limit=100.0, checkpoint=tmp_path / "run")
    result = strategy.start(fleet, initial(), 3)
    assert np.isfinite(flatten(result.arrays)).all()
    second = entries(tmp_path / "run")[1]
    assert why in second.refused["1"]
    assert [share > 0 for share in second.counted] == [True, False, True]
    assert "node1" in caplog.text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("arrived", float("nan")),
        ("arrived", 1e300),
        ("held", float("-inf")),
        ("rate", float("inf")),
        ("prequential-recent_loss", float("nan")),
        ("prequential-count", -4.0),
        ("samples", float("inf")),
        ("prequential-recent_loss", 1e300),
        ("prequential-count", 1e300),
        ("rate", 1.7e308),
    ],
)
@pytest.mark.parametrize("strategy", [hw.ByMemory(), hw.Uniform()])
def test_numbers_that_cannot_be_spoil_nothing(live_fleet, tmp_path, name, value, strategy):
    """A wire of ours could not carry them; a client of somebody else's making can send them."""
    live_fleet.toys[2].live_stream()

    def claim(message, reply):
        if message.metadata.message_type == "train":
            reply.content["metrics"][name] = value

    spoilt(live_fleet, 98, claim)
    server = StreamFedAvg(strategy, min_clients=3, checkpoint=tmp_path / "run")
    result = server.start(live_fleet, initial(), 4)
    assert np.isfinite(flatten(result.arrays)).all()
    last = entries(tmp_path / "run")[-1]
    assert sum(last.planned) == pytest.approx(1)
    assert last.arrived[2] <= 2**53
    assert not last.refused


def test_numbers_whose_products_are_not_finite_are_cut_off(live_fleet, tmp_path):
    """Each is finite; the journal could not hold their mean, and the run never went on."""
    live_fleet.toys[2].live_stream()

    def claim(message, reply):
        if message.metadata.message_type == "train":
            for name in ("prequential-count", "prequential-recent_loss"):
                reply.content["metrics"][name] = 1e300

    spoilt(live_fleet, 98, claim)
    result = StreamFedAvg(min_clients=3, checkpoint=tmp_path / "run").start(
        live_fleet, initial(), 3
    )
    assert result.rounds == 3


@pytest.mark.parametrize("value", [1e39, 1e25])
def test_parameters_that_the_models_type_cannot_add_up_are_refused(fleet, tmp_path, value):
    """A float64 update of a float32 model may be finite and still make it infinite."""

    def claim(message, reply):
        if message.metadata.message_type == "train":
            reply.content["arrays"] = ArrayRecord([np.full(8, value)])

    spoilt(fleet, 98, claim)
    result = StreamFedAvg(min_clients=3, checkpoint=tmp_path / "run").start(fleet, initial(), 2)
    assert np.isfinite(flatten(result.arrays)).all()
    assert all("too large" in entry.refused["2"] for entry in entries(tmp_path / "run"))


def test_who_is_refused_does_not_count_more_later(fleet, tmp_path):
    """Or a client could send what is refused, and then have several times its share."""

    def answer(header, reply):
        spoil = header["round"] < 4
        return Frame(reply.header, {"move": reply.arrays["move"] * np.nan}) if spoil else reply

    fleet.toys[1].spoil = answer
    StreamFedAvg(min_clients=3, checkpoint=tmp_path / "run").start(fleet, initial(), 4)
    fourth = entries(tmp_path / "run")[3]
    assert fourth.counted == fourth.planned


def spoilt(fleet, node, change):
    """What a node sends is changed on its way, as a client of one's own making could."""
    answer = fleet.answer

    def changed(message):
        reply = answer(message)
        if message.metadata.dst_node_id == node:
            change(message, reply)
        return reply

    fleet.answer = changed


def lying_array(size):
    """Bytes that claim to be a very large array; a head has blanks at its end to spare."""
    record = ArrayRecord([np.zeros(8, np.float32)])
    (array,) = record.values()
    blanks = b" " * (len(size) - 1)
    assert blanks in array.data
    array.data = array.data.replace(blanks, b"", 1).replace(b"(8,)", f"({size},)".encode())
    return record


@pytest.mark.parametrize("size", ["9" * 6, "9" * 11, "9" * 17])
def test_an_array_that_claims_to_be_larger_than_it_is_is_refused(fleet, tmp_path, size):
    def lie(message, reply):
        if message.metadata.message_type == "train":
            reply.content["arrays"] = lying_array(size)

    spoilt(fleet, 98, lie)
    StreamFedAvg(min_clients=3, checkpoint=tmp_path / "run").start(fleet, initial(), 2)
    assert all("cannot be read" in entry.refused["2"] for entry in entries(tmp_path / "run"))


@pytest.mark.parametrize(
    "lie",
    [
        {"declared": {"kind": "constant", "samples": 40}},
        {"declared": {"kind": "constant", "rate": -1, "samples": 40}},
        {"declared": {"kind": "constant", "rate": 4, "samples": 10**15}},
        {"declared": {"kind": "trace", "counts": "x", "samples": 10}},
        {"declared": {"kind": "often", "samples": 10}},
        {"declared": [1]},
        {"rate": [1]},
        {"rate": float("inf")},
        {"arrived": 10**30},
        {"capacity": -3},
        {"held": "many"},
    ],
)
def test_a_description_that_cannot_be_leaves_its_node_out(fleet, caplog, lie):
    def claim(message, reply):
        if message.metadata.message_type == messages.DESCRIBE:
            config = reply.content.config_records["config"]
            config["header"] = json.dumps(json.loads(config["header"]) | lie)

    spoilt(fleet, 99, claim)
    result = StreamFedAvg(min_clients=2).start(fleet, initial(), 2)
    assert result.ledger.holdings.clients == 2
    assert "node 99 is left out: client node1" in caplog.text


def test_a_header_that_is_too_deep_is_refused():
    deep = messages.request({})
    deep.config_records["config"]["header"] = "[" * 100_000
    with pytest.raises(hw.InputError, match="no JSON"):
        messages.header_of(deep)


def test_an_update_of_another_round_is_refused(fleet, tmp_path):
    fleet.toys[2].spoil = lambda header, reply: Frame(
        dict(reply.header) | {"round": header["round"] - 1}, reply.arrays
    )
    StreamFedAvg(min_clients=3, checkpoint=tmp_path / "run").start(fleet, initial(), 2)
    assert "round 0" in entries(tmp_path / "run")[0].refused["2"]


def test_a_second_answer_does_not_count_twice(fleet):
    once = fleet.pull_messages

    def twice(numbers):
        found = once(numbers)
        return found + found

    fleet.pull_messages = twice
    result = StreamFedAvg(min_clients=3).start(fleet, initial(), 3)
    run = simulated(hw.Uniform(), 3)
    np.testing.assert_allclose(flatten(result.arrays), vector(run.model), atol=1e-6)


def test_below_the_quorum_the_run_waits_then_says_so(fleet):
    fleet.lose = of_round(2)
    strategy = StreamFedAvg(patience=0.4, **SOON)
    with pytest.raises(QuorumError, match=r"quorum in round 2 .*quorum=0.5"):
        strategy.start(fleet, initial(), 3)


def test_too_few_clients_to_begin_with(fleet):
    with pytest.raises(QuorumError, match=r"3 clients .*min_clients=4"):
        StreamFedAvg(min_clients=4, deadline=0.1, patience=0.2).start(fleet, initial(), 3)


def test_a_node_with_another_model_is_left_out(fleet, caplog):
    fleet.toys[0].model = torch.nn.Linear(4, 2)
    with pytest.raises(QuorumError):
        StreamFedAvg(min_clients=3, deadline=0.1, patience=0.2).start(fleet, initial(), 1)
    assert "node0: its model has 10 parameters, the server's has 8" in caplog.text


def test_a_second_node_with_a_name_that_is_taken_is_not_believed(fleet, caplog):
    _, path = fleet.nodes[99]

    def impostor(entry):
        fleet.nodes[7] = ("node0", path)

    result = StreamFedAvg(min_clients=3).start(fleet, initial(), 3, progress=impostor)
    run = simulated(hw.Uniform(), 3)
    np.testing.assert_allclose(flatten(result.arrays), vector(run.model), atol=1e-6)
    to_impostor = [m.metadata.message_type for m in fleet.sent if m.metadata.dst_node_id == 7]
    assert set(to_impostor) == {messages.DESCRIBE}
    assert "its name node0 is taken" in caplog.text


def test_the_model_must_be_of_one_precision(fleet):
    mixed = ArrayRecord([np.zeros(3, np.float32), np.zeros(5, np.float64)])
    with pytest.raises(hw.InputError, match="float32"):
        StreamFedAvg().start(fleet, mixed, 1)
