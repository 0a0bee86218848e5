"""Real parts again, and one client that does what it should not: it is refused, named, and alone.

The SuperNodes reach the SuperLink through taps, without TLS, so that every byte can be looked at.
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from flower_bench import APP, Bench
from toy_node import three_clients
from traces import found

from headwater.flower.journal import Journal

pytestmark = pytest.mark.xdist_group("flower")
CLIENT = '''\
"""Node 2 misbehaves in a different way in every round."""

import os

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord

from headwater.flower import messages, node_app

ROW = np.array({row!r})


def misbehave(message, context, call_next):
    reply = call_next(message, context)
    if context.node_config["client-id"] != "node2" or reply.has_error():
        return reply
    content = reply.content
    (name, arrays), = content.array_records.items()
    (_, numbers), = content.metric_records.items()
    mine = arrays.to_numpy_ndarrays()
    match messages.header_of(message.content)["round"]:
        case 2:
            content[name] = ArrayRecord([part * np.nan for part in mine])
        case 3:
            content[name] = ArrayRecord([part[:1] for part in mine])
        case 4:
            numbers["round"] = 3
        case 5:
            if not os.path.exists({sent!r}):
                open({sent!r}, "x").close()
                large = np.random.default_rng(0).bytes({size})
                content[name] = ArrayRecord([np.frombuffer(large, np.float32)])
        case 6:
            numbers["leak"] = ROW.tolist()
            plain = ROW.astype("<f4").tobytes()
            content["more"] = ConfigRecord({{"leak": plain, "text": str(ROW.tolist())}})
    return reply


app = node_app([misbehave])
'''


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    bench = Bench(tmp_path_factory.mktemp("bench"), secure=False, tapped=True)
    yield bench
    bench.close()


@pytest.fixture(scope="module")
def rounds(bench, tmp_path_factory):
    """The journal of a run in which node 2 misbehaves in the rounds 2 to 6."""
    return hostile_run(bench, tmp_path_factory.mktemp("run"), 3_000_000)


def hostile_run(bench, folder, size):
    submit(bench, folder, hostile_app(folder, size))
    return ended(bench, folder)


def hostile_app(folder, size):
    app = folder / "app"
    shutil.copytree(APP, app)
    row = three_clients()[2][0][3].tolist()
    client = CLIENT.format(row=row, size=size, sent=str(folder / "sent"))
    (app / "stream_app" / "client.py").write_text(client)
    return app


def submit(bench, folder, app):
    bench.fresh_nodes()
    bench.submit(folder / "run", app, num_rounds=6, local_steps=2, seed=5, ask_again=30.0)


def ended(bench, folder):
    model = bench.wait_for_model(folder / "run", 1200)
    assert np.isfinite(model).all()
    return Journal(folder / "run" / "rounds.jsonl").read()


def test_what_cannot_be_is_refused_and_named_and_the_others_are_unharmed(rounds):
    reasons = [entry.refused.get("2", "") for entry in rounds]
    expected = [
        "",
        "not finite",
        "4 parameters",
        "an update of round 3",
        "an update of 3,000,128 bytes",
        "",
    ]
    for reason, words in zip(reasons, expected, strict=True):
        assert words in reason
        assert bool(words) == bool(reason)
    for entry in rounds:  # the others count as planned, and nobody gets what is refused
        assert entry.counted[:2] == pytest.approx(entry.planned[:2])
        assert (entry.counted[2] == 0) == ("2" in entry.refused)


def test_no_byte_that_a_node_sends_is_of_a_sample(bench, rounds):
    clients = [(x, y) for x, y, *_ in three_clients()]
    for m, tap in enumerate(bench.taps[:2]):
        assert f"node{m}".encode() in tap.sent  # it is plain text that is looked at
        assert tap.sent.count(b"arrived") >= len(rounds)
        for x, y in clients:
            assert found(x, y, tap.sent) == []


def test_the_search_finds_what_node_2_gave_away_in_the_end(bench, rounds):
    x, y, *_ = three_clients()[2]
    assert found(x, y, bench.taps[2].sent) == ["float32", "float64", "text"]
    others = np.delete(x, 3, axis=0)
    assert found(others, y, bench.taps[2].sent) == []


@pytest.mark.soak
def test_a_gigabyte_is_refused_and_named_and_nobody_dies_of_it(bench, tmp_path):
    """Flower's SuperLink stores it and deletes it again; meanwhile the others wait, and no part has
    to be started again."""
    submit(bench, tmp_path, hostile_app(tmp_path, 2**30))
    parts, helpers = dict(bench.parts), bench.find("flower-superexec")
    rounds = ended(bench, tmp_path)
    assert "an update of 1,073,741,952 bytes" in rounds[4].refused["2"]
    for entry in rounds:
        assert entry.counted[:2] == pytest.approx(entry.planned[:2])
        assert (entry.counted[2] == 0) == ("2" in entry.refused)
    assert bench.parts == parts
    assert bench.find("flower-superexec") == helpers
    assert "database is locked" not in bench.parts["superlink"].log.read_text(errors="replace")
