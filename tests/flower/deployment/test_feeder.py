"""The feeder of a fleet: a node has every row of a stream once, whatever connections do."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from brokers import MISSING, MOSQUITTO, Broker
from intakes import Taking, held
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from headwater.devices.settings import NodeSettings
from headwater.flower.deployment.feeder import Outbox, Progress, feed
from headwater.flower.deployment.layout import ROW, Fleet

ROWS, CONNACK = 40, 4  # rows of the stream; bytes with which a broker welcomes


class DeafOnce:
    """A way to a port whose first connection breaks when the first acknowledgement comes back."""

    def __init__(self, target):
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.broken = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            near, _ = self._server.accept()
            far = socket.create_connection(("127.0.0.1", self._target))
            threading.Thread(target=self._pass_on, args=(near, far), daemon=True).start()
            if self.broken.is_set():
                threading.Thread(target=self._pass_on, args=(far, near), daemon=True).start()
            else:
                near.sendall(far.recv(CONNACK))
                far.recv(1)  # the broker has a message, and its sender is not to know
                self.broken.set()
                for side in (near, far):
                    side.shutdown(socket.SHUT_RDWR)

    def _pass_on(self, source, target):
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
        except OSError:
            pass  # broken, as it should


@pytest.fixture
def broker(tmp_path):
    made = Broker(tmp_path / "mosquitto")
    yield made
    made.stop(signal.SIGKILL)


def fleet_of(folder, port, rows=ROWS):
    """A fleet with one stream, whose rows tell their numbers."""
    fleet = Fleet(folder, ("a",), per_second=1000.0, secure=False, broker_port=port)
    (folder / "data").mkdir()
    lines = [f"{k},0" for k in range(rows)]
    (folder / "data" / "a.csv").write_text("\n".join(["f,label", *lines]))
    (folder / "broker").mkdir()
    (folder / "broker" / "feeder.password").write_text("any")
    return fleet


def node_settings(folder, broker, **samples):
    """A node of such a fleet."""
    return NodeSettings.model_validate(
        {
            "client": "a",
            "folder": folder / "node",
            "memory": {"rule": "keep"},
            "samples": {"features": ["f"], "label": "label", "classes": 2, "id": ROW, **samples},
            "source": {"kind": "mqtt", "topics": ["streams/a"], "port": broker.port, "tls": False},
        }
    )


needs_broker = pytest.mark.skipif(MOSQUITTO is None, reason=MISSING)


@needs_broker
@pytest.mark.parametrize("once", [0, 1000])
def test_rows_that_are_published_again_are_taken_once(tmp_path, broker, once):
    way = DeafOnce(broker.port)
    with Taking(node_settings(tmp_path, broker, once=once)) as taking:
        broker.wait_for("Sending SUBACK to a")
        feed(fleet_of(tmp_path, way.port))
        taking.until(lambda intake: ROWS - 1 in held(intake))
        assert way.broken.is_set()
        rows, state = held(taking.intake), taking.intake.memory.state
        # QoS 1 is "at least once", but the first of each come in their order
        assert list(dict.fromkeys(rows)) == list(range(ROWS))
        assert (len(rows) == ROWS) == (once > 0)
        assert state.number("repeated") == (state.number("messages") - ROWS if once else 0)
        assert state.number("messages") > ROWS
        assert state.number("malformed") == 0


@needs_broker
def test_a_feeder_that_is_killed_loses_no_row_and_a_node_has_each_once(tmp_path, broker):
    """At random moments, also when rows are on their way and the broker is not there."""
    fleet, chance = fleet_of(tmp_path, broker.port, rows=4000), random.Random(4)
    fleet.save()
    command = [sys.executable, "-m", "headwater.flower.deployment.feeder", str(tmp_path)]
    with Taking(node_settings(tmp_path, broker, once=10_000)) as taking:
        broker.wait_for("Sending SUBACK to a")
        for _ in range(3):
            before = taking.intake.memory.arrived
            with subprocess.Popen(command) as process:
                taking.until(lambda intake, before=before: intake.memory.arrived > before)
                time.sleep(1 + chance.random())
                process.kill()
        feed(fleet)
        taking.until(lambda intake: intake.memory.arrived >= 4000)
        assert held(taking.intake) == list(range(4000))
        assert taking.intake.memory.state.number("repeated") > 0


def test_what_the_broker_does_not_have_yet_is_not_written_down(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    path, outbox = tmp_path / "fed.json", Outbox(Client(CallbackAPIVersion.VERSION2))
    progress = Progress(path, ["a"])
    progress.place["a"] = outbox.sent = 30
    for now[0], there, written in [(2, 0, 0), (4, 29, 0), (6, 30, 30)]:
        outbox._there = there
        progress.note(outbox)
        assert json.loads(path.read_text()) == {"a": written}
    assert Progress(path, ["a", "b"]).place == {"a": 30, "b": 0}
