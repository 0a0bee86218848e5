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
    place = _load(fleet.folder / "broker" / "fed.json")
    client = connect(fleet)
    client.loop_start()
    began, first = time.monotonic(), {name: place.get(name, 0) for name in rows}
    saved = began
    while any(place.get(name, 0) < len(stream) for name, stream in rows.items()):
        now = time.monotonic()
        for name, stream in rows.items():
            due = min(len(stream), first[name] + int((now - began) * fleet.per_second))
            for number in range(place.get(name, 0), due):
                # QoS 2: with 1 a lost connection would make the broker pass on some rows twice
                client.publish(f"streams/{name}", json.dumps(stream[number]), qos=2)
            place[name] = due
        if now - saved > 1.0:
            replace(fleet.folder / "broker" / "fed.json", json.dumps(place).encode())
            saved = now
        time.sleep(min(0.2, 1.0 / fleet.per_second))
    client.loop_stop()


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
