"""What Flower starts for every message is small, and maps what goes wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest
from flwr.app import Context, Message, RecordDict
from loopback_grid import identify
from toy_node import Served, toy

from headwater.devices.wire import Frame
from headwater.errors import InputError
from headwater.flower import client, messages


def context(path, name="node0"):
    return Context(1, 1, {"client-id": name, "socket": str(path)}, RecordDict(), {})


def query():
    identify()
    message = Message(messages.request({}), 1, messages.DESCRIBE)
    message.metadata.__dict__["_message_id"] = "1"
    return message


def test_it_loads_neither_pytorch_nor_scipy():
    code = "import sys, headwater.flower.client as c; print({'torch', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_description_carries_the_name_from_the_configuration(tmp_path):
    with Served(toy(0), tmp_path / "s"):
        reply = client.app(query(), context(tmp_path / "s", "gateway-7"))
    assert messages.header_of(reply.content)["client-id"] == "gateway-7"


def test_a_node_that_refuses_is_an_error_that_is_not_asked_again(tmp_path):
    node = toy(0)
    node.answer = lambda frame: Frame.refusal("stale", "round 3, after round 4")
    with Served(node, tmp_path / "s"):
        reply = client.app(query(), context(tmp_path / "s"))
    assert (reply.error.code, reply.error.reason) == (
        messages.REFUSED,
        "stale: round 3, after round 4",
    )


def test_a_node_that_stays_away_is_an_error_that_is_asked_again(tmp_path, monkeypatch):
    monkeypatch.setattr(client.ask_node, "__defaults__", (0.1,))
    reply = client.app(query(), context(tmp_path / "nobody"))
    assert reply.error.code == messages.AWAY
    assert "nobody" in reply.error.reason


def test_a_node_that_breaks_off_is_asked_again(tmp_path):
    node, asked = toy(0), []

    def answer(frame):
        asked.append(frame)
        if len(asked) == 1:
            return Frame({"text": "x" * 2_000_000})  # larger than a header may be: it breaks off
        return Frame(node.describe())

    served = Served(node, tmp_path / "s")
    node.answer, real = answer, served.serve

    def serve():
        try:
            real()
        except ConnectionError:
            real()

    served.serve = serve
    served._thread._target = serve
    with served:
        reply = client.app(query(), context(tmp_path / "s"))
    assert reply.has_content()
    assert len(asked) == 2


def test_in_flowers_simulation_the_runs_settings_say_where_nodes_are(tmp_path):
    with Served(toy(0), tmp_path / "2.sock"):
        simulated = Context(
            1,
            1,
            {"partition-id": 2, "num-partitions": 3},
            RecordDict(),
            {"sockets": str(tmp_path / "{}.sock")},
        )
        reply = client.app(query(), simulated)
    assert messages.header_of(reply.content)["client-id"] == "node2"


def test_a_configuration_without_a_name_is_refused(tmp_path):
    with pytest.raises(InputError, match="client-id"):
        client.identity(Context(1, 1, {"socket": "x"}, RecordDict(), {}))
