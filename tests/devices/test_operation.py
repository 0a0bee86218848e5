"""What operators touch: metrics, logs, the unit file; and what no byte that leaves may have."""

from __future__ import annotations

import configparser
import json
import logging
import signal
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from node_process import running, write_toml
from nodes import Parameters, node_settings, samples, write_csv

import headwater as hw
from headwater.devices.logs import JsonFormatter, TextFormatter
from headwater.devices.node.metrics import MetricsServer
from headwater.devices.node.node import Node
from headwater.devices.node.server import Server
from headwater.devices.settings import MetricsSettings
from headwater.devices.wire import Frame, receive, send

ROOT = Path(__file__).parents[2]


@pytest.fixture
def node(tmp_path):
    path = write_csv(tmp_path / "s.csv", *samples(12))
    source = {"kind": "csv", "path": path, "arrivals": {"kind": "constant", "rate": 4}}
    made = Node(node_settings(tmp_path / "n", source=source, test={"csv": path}))
    yield made
    made.close()


def order(node, round):
    header = {"do": "train", "run": "r", "round": round, "client": 0, "learning_rate": 0.1}
    return Frame(header, {"parameters": Parameters.of(node)})


def test_metrics_are_prometheus_text(node):
    node.answer(order(node, 2))
    server = MetricsServer(MetricsSettings(port=0), node, None)
    server.start()
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=60) as reply:
        assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = reply.read().decode()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert values['headwater_node_arrived_total{client="a"}'] == "8"
    assert values['headwater_node_held{client="a"}'] == "8"
    assert values['headwater_node_last_round{client="a"}'] == "2"
    assert values['headwater_node_scored_total{client="a"}'] == "8"
    assert float(values['headwater_node_prequential_recent_loss{client="a"}']) > 0
    assert "headwater_node_capacity" not in text  # Keep has none
    assert text.count("# TYPE") == len(values)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/memory.db", timeout=60)
    server.close()


def test_a_port_that_is_taken_is_named(node):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(hw.InputError, match=rf"metrics\.port: cannot listen on .*:{port}"):
            MetricsServer(MetricsSettings(port=port), node, None)


def test_metrics_of_a_running_node(tmp_path):
    (tmp_path / "s.ndjson").write_text('{"a": 1, "b": 2, "c": 3, "label": 0}\n{"a": 1}\n')
    source = '[source]\nkind = "lines"\npath = "s.ndjson"\n[metrics]\nport = 0'
    with running(write_toml(tmp_path, source)) as process:
        process.until(lambda about: about["arrived"] == 1)
        port = process.wait_for("ready")["metrics_port"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as reply:
            assert 'headwater_node_malformed_total{client="a"} 1' in reply.read().decode()
        told = process.wait_for("malformed message")
        assert (told["reason"], told["level"]) == ("field 'b' is missing", "warning")
        assert process.end(signal.SIGTERM) == 0


def test_a_log_line_is_one_json_object():
    record = logging.makeLogRecord(
        {
            "msg": 'odd "words"\nand lines',
            "levelname": "WARNING",
            "name": "headwater.x",
            "count": 3,
            "path": Path("/a"),
        }
    )
    line = JsonFormatter().format(record)
    assert "\n" not in line
    content = json.loads(line)
    assert content["message"] == 'odd "words"\nand lines'
    assert (content["level"], content["count"], content["path"]) == ("warning", 3, "/a")
    assert TextFormatter("%(message)s").format(record).endswith("count=3  path=/a")


def test_no_byte_that_leaves_has_a_feature_or_a_label_in_it(node, tmp_path):
    """Everything a node sends, as it comes out of the socket."""
    server = Server(tmp_path / "run" / "s", node.answer)
    server.start()
    x, _ = samples(12)
    questions = [
        Frame({"do": "describe"}),
        order(node, 1),
        order(node, 3),
        Frame({"do": "dump"}),
        Frame({"do": "evaluate"}, {"parameters": Parameters.of(node)}),
    ]
    sent = b""
    for question in questions:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(tmp_path / "run" / "s"))
            send(sock, question)
            while part := sock.recv(1 << 16):
                sent += part
    server.close()
    assert b'"arrived": 12' in sent
    for value in x.ravel():
        assert value.tobytes() not in sent
        assert np.float64(value).tobytes() not in sent
        assert f"{value:.4f}".encode() not in sent


def test_a_reply_has_only_what_the_contract_names(node):
    allowed = {"run", "round", "samples", "arrived", "held", "rate", "prequential"}
    reply = node.answer(order(node, 1))
    assert set(reply.header) == allowed
    assert set(reply.arrays) == {"move"}
    assert reply.arrays["move"].shape == (12,)


def test_the_unit_file_starts_this_command():
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str
    unit.read(ROOT / "docs" / "systemd" / "headwater-node@.service")
    assert unit["Service"]["ExecStart"].endswith("headwater node /etc/headwater/%i.toml")
    assert unit["Service"]["Type"] == "notify"
    assert unit["Service"]["UMask"] == "0077"


def test_systemd_is_told_when_the_node_is_ready(tmp_path, monkeypatch):
    from headwater.devices.node.service import serve

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        stop, ended = threading.Event(), []
        settings = node_settings(tmp_path / "n")
        thread = threading.Thread(target=lambda: ended.append(serve(settings, stop)))
        thread.start()
        assert systemd.recv(100) == b"READY=1"
        stop.set()
        thread.join(60)
    assert ended == [True]


def test_a_request_under_way_is_answered_before_the_end(tmp_path):
    """Closing waits for answers: a round that was trained is not trained for nothing."""
    begun, go_on = threading.Event(), threading.Event()

    def answer(frame):
        begun.set()
        go_on.wait(60)
        return Frame({"done": True})

    server = Server(tmp_path / "run" / "s", answer)
    server.start()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        sock.connect(str(tmp_path / "run" / "s"))
        send(sock, Frame({}))
        begun.wait(60)
        closing = threading.Thread(target=server.close)
        closing.start()
        go_on.set()
        assert receive(sock).header == {"done": True}
    closing.join(60)
    assert not closing.is_alive()
