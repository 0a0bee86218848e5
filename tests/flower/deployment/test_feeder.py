"""The feeder of a fleet: every row of a stream gets to the broker, whatever connections do."""

from __future__ import annotations

import json
import socket
import threading

import pytest
from brokers import MISSING, MOSQUITTO, Broker
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from headwater.flower.deployment.feeder import feed
from headwater.flower.deployment.layout import Fleet

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


@pytest.mark.skipif(MOSQUITTO is None, reason=MISSING)
def test_a_lost_connection_loses_no_row(tmp_path):
    broker = Broker(tmp_path / "mosquitto")
    way = DeafOnce(broker.port)
    fleet = Fleet(tmp_path, ("a",), per_second=1000.0, secure=False, broker_port=way.port)
    (tmp_path / "data").mkdir()
    lines = [f"{k},0" for k in range(ROWS)]
    (tmp_path / "data" / "a.csv").write_text("\n".join(["f,label", *lines]))
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "feeder.password").write_text("any")
    heard, subscribed, last = [], threading.Event(), threading.Event()

    def hear(client, data, message):
        heard.append(message.payload)
        if message.payload == b"last":
            last.set()

    reader = Client(CallbackAPIVersion.VERSION2)
    reader.on_message, reader.on_subscribe = hear, lambda *_: subscribed.set()
    reader.connect("127.0.0.1", broker.port)
    reader.loop_start()
    reader.subscribe("streams/a", 1)
    try:
        assert subscribed.wait(60)
        feed(fleet)
        reader.publish("streams/a", b"last", qos=1)
        assert last.wait(60)
    finally:
        reader.loop_stop()
        broker.process.kill()
        broker.process.wait()
    assert way.broken.is_set()
    # QoS 1 is "at least once": a row may come twice, but the first of each come in their order
    assert list(dict.fromkeys(json.loads(row)["f"] for row in heard[:-1])) == list(range(ROWS))
