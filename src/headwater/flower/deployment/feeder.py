"""The devices of a fleet on one machine: publishes every client's recorded stream to the broker.

Run as ``python -m headwater.flower.deployment.feeder FOLDER``. Where each stream is, is kept on
disk every second: a feeder that was killed goes on from there, and repeats at most a second's rows.
"""

from __future__ import annotations

import contextlib
import csv
import json
import ssl
import sys
import time
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from headwater.files import replace
from headwater.flower.deployment.broker import FEEDER
from headwater.flower.deployment.layout import Fleet


def feed(fleet: Fleet) -> None:
    """Publish until the streams end, at the fleet's pace."""
    rows = {name: _rows(fleet.folder / "data" / f"{name}.csv") for name in fleet.streams}
    fed = fleet.folder / "broker" / "fed.json"
    place = _load(fed)
    client = connect(fleet)
    outbox = Outbox(client)
    client.loop_start()
    began, first = time.monotonic(), {name: place.get(name, 0) for name in rows}
    saved = began
    while any(place.get(name, 0) < len(stream) for name, stream in rows.items()):
        now = time.monotonic()
        for name, stream in rows.items():
            due = min(len(stream), first[name] + int((now - began) * fleet.per_second))
            for number in range(place.get(name, 0), due):
                outbox.publish(f"streams/{name}", json.dumps(stream[number]))
            place[name] = due
        if now - saved > 1.0:
            replace(fed, json.dumps(place).encode())
            saved = now
        time.sleep(min(0.2, 1.0 / fleet.per_second))
    outbox.drain()
    replace(fed, json.dumps(place).encode())
    client.loop_stop()


class Outbox:
    """Messages on their way to the broker; paho keeps them while a connection is lost."""

    def __init__(self, client: mqtt.Client) -> None:
        self._client, self._sent, self._there = client, 0, 0
        client.on_publish = self._count

    def publish(self, topic: str, message: str) -> None:
        """At least once: after a lost connection the broker may pass some on a second time."""
        self._client.publish(topic, message, qos=1)
        self._sent += 1

    def drain(self) -> None:
        """Wait until all are there: what is still on its way ends with this process."""
        while self._there < self._sent:
            time.sleep(0.05)

    def _count(self, *_: object) -> None:
        self._there += 1


def connect(fleet: Fleet) -> mqtt.Client:
    """A connection that comes back by itself."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=FEEDER, clean_session=False)
    client.username_pw_set(FEEDER, (fleet.folder / "broker" / f"{FEEDER}.password").read_text())
    if fleet.server_files is not None:
        context = ssl.create_default_context(cafile=str(fleet.server_files.authority))
        client.tls_set_context(context)
    client.reconnect_delay_set(1, 10)
    while True:
        with contextlib.suppress(OSError):
            client.connect("127.0.0.1", fleet.broker_port)
            return client
        time.sleep(0.5)


def _rows(path: Path) -> list[dict[str, float]]:
    with open(path, newline="") as file:
        return [_numbers(row) for row in csv.DictReader(file)]


def _numbers(row: dict[str, str]) -> dict[str, float]:
    return {key: float(value) for key, value in row.items()} | {"label": int(row["label"])}


def _load(path: Path) -> dict[str, int]:
    return dict(json.loads(path.read_text())) if path.exists() else {}


if __name__ == "__main__":
    feed(Fleet.load(Path(sys.argv[1])))
