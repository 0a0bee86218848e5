"""From the broker to the disk, beside a subscriber that only acknowledges.

Both have a session that lasts, and the same messages wait for them in it.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from headwater.devices.intake import Intake
from headwater.devices.settings import Limits
from headwater.devices.settings.sources import MqttSettings


def compare(
    messages: list[bytes], turns: int, open_intake: Callable[[Path], Intake], batch: int
) -> None:
    """In turns; prints medians and their ratio."""
    count = len(messages)
    rates: dict[str, list[float]] = {"bare broker": [], "MQTT": []}
    for _ in range(turns):
        with tempfile.TemporaryDirectory() as folder:
            broker = Broker(Path(folder))
            broker.fill(messages)
            rates["bare broker"].append(bare_broker(broker, count))
            intake = open_intake(Path(folder))
            rates["MQTT"].append(whole_way(broker, intake, count, batch))
            broker.process.kill()
            broker.process.wait()
    medians = {name: statistics.median(values) for name, values in rates.items()}
    for name, rate in medians.items():
        print(f"{name:12} {rate:9,.0f} samples/s  {rate / medians['bare broker']:.2f}x", flush=True)


def bare_broker(broker: Broker, count: int) -> float:
    """Receive and acknowledge, nothing else."""
    from paho.mqtt.client import Client, MQTTv5
    from paho.mqtt.enums import CallbackAPIVersion
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    client = Client(CallbackAPIVersion.VERSION2, client_id="bare", protocol=MQTTv5)
    session = Properties(PacketTypes.CONNECT)
    session.SessionExpiryInterval, session.ReceiveMaximum = 3600, 1000
    come, done = [0, 0.0], threading.Event()

    def on_message(*_: object) -> None:
        come[0] += 1
        come[1] = come[1] or time.perf_counter()
        if come[0] == count:
            done.set()

    client.on_message = on_message
    client.connect("127.0.0.1", broker.port, clean_start=False, properties=session)
    client.loop_start()
    done.wait()
    seconds = time.perf_counter() - come[1]
    client.disconnect()
    client.loop_stop()
    return count / seconds


def whole_way(broker: Broker, intake: Intake, count: int, batch: int) -> float:
    """From the broker to the disk, as a node does it."""
    from headwater.devices.sources.mqtt import MqttSource

    settings = MqttSettings(kind="mqtt", topics=("s/#",), port=broker.port, tls=False)
    source = MqttSource(settings, "node", Limits(batch=batch))
    stop, start = threading.Event(), 0.0
    for delivery in source.deliveries(intake.memory.state, stop):
        start = start or time.perf_counter()
        intake.take(delivery.messages, delivery.remember)
        delivery.safe()
        if intake.memory.arrived >= count:
            stop.set()
    seconds = time.perf_counter() - start
    intake.memory.database.close()
    return count / seconds


class Broker:
    """mosquitto with sessions for both contenders, and messages waiting in both."""

    def __init__(self, folder: Path) -> None:
        import socket
        import subprocess

        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = sock.getsockname()[1]
        (folder / "mosquitto.conf").write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
            "max_inflight_messages 1000\n" + ("user root\n" if os.getuid() == 0 else "")
        )
        program = shutil.which("mosquitto", path=os.environ["PATH"] + ":/usr/sbin")
        command = [str(program), "-c", str(folder / "mosquitto.conf"), "-v"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if "running" in line:
                break
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def fill(self, messages: list[bytes]) -> None:
        from paho.mqtt.client import Client, MQTTv5
        from paho.mqtt.enums import CallbackAPIVersion
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        for name in ("bare", "node"):
            asked = threading.Event()
            client = Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=MQTTv5)
            session = Properties(PacketTypes.CONNECT)
            session.SessionExpiryInterval = 3600
            client.on_subscribe = lambda *_, asked=asked: asked.set()
            client.on_connect = lambda client, *_: client.subscribe("s/#", 1)
            client.connect("127.0.0.1", self.port, clean_start=False, properties=session)
            client.loop_start()
            asked.wait()
            client.disconnect()
            client.loop_stop()
        client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
        client.max_inflight_messages_set(1000)
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        for sent in [client.publish("s/1", message, qos=1) for message in messages]:
            sent.wait_for_publish()
        client.disconnect()
        client.loop_stop()
