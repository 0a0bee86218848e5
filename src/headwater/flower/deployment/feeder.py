"""The devices of a fleet on one machine: publishes every client's recorded stream to the broker.

Run as ``python -m headwater.flower.deployment.feeder FOLDER``. How much of each stream the broker
has is kept on disk every second, and a feeder that was killed goes on from there. So no row is
lost; some may be published again, and nodes know them by their numbers.
"""

from __future__ import annotations

import contextlib
import csv
import json
import ssl
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from headwater.files import replace
from headwater.flower.deployment.layout import ROW, Fleet
from headwater.flower.deployment.names import FEEDER


def feed(fleet: Fleet) -> None:
    """Publish until the streams end, at the fleet's pace."""
    rows = {name: _rows(fleet.folder / "data" / f"{name}.csv") for name in fleet.streams}
    client = connect(fleet)
    outbox = Outbox(client)
    progress = Progress(fleet.folder / "broker" / "fed.json", rows)
    client.loop_start()
    began, first = time.monotonic(), dict(progress.place)
    while any(progress.place[name] < len(stream) for name, stream in rows.items()):
        passed = time.monotonic() - began
        for name, stream in rows.items():
            due = min(len(stream), first[name] + int(passed * fleet.per_second))
            for number in range(progress.place[name], due):
                outbox.publish(f"streams/{name}", json.dumps(stream[number] | {ROW: number}))
            progress.place[name] = due
        progress.note(outbox)
        time.sleep(min(0.2, 1.0 / fleet.per_second))
    outbox.drain()
    progress.write(progress.place)
    client.loop_stop()


class Progress:
    """How far each stream is, and on disk, how far the broker has it.

    Attributes:
        place: the number of the next row to publish, by stream.
    """

    def __init__(self, path: Path, streams: Iterable[str]) -> None:
        self._path = path
        known = json.loads(path.read_text()) if path.exists() else {}
        self.place: dict[str, int] = {name: known.get(name, 0) for name in streams}
        self._next, self._awaited = dict(self.place), 0  # written when so many are delivered
        self._written = time.monotonic()

    def note(self, outbox: Outbox) -> None:
        """Once a second, if the broker has what was published up to the last time."""
        if time.monotonic() - self._written > 1.0 and outbox.has_delivered(self._awaited):
            self.write(self._next)
            self._next, self._awaited = dict(self.place), outbox.sent

    def write(self, place: Mapping[str, int]) -> None:
        """A feeder that comes after this one begins here."""
        replace(self._path, json.dumps(place).encode())
        self._written = time.monotonic()


class Outbox:
    """Messages on their way to the broker; paho keeps them while a connection is lost.

    Attributes:
        sent: how many were published so far.
    """

    def __init__(self, client: mqtt.Client) -> None:
        self._client, self.sent, self._there = client, 0, 0
        client.on_publish = self._count

    def publish(self, topic: str, message: str) -> None:
        """At least once: after a lost connection the broker may pass some on a second time."""
        self._client.publish(topic, message, qos=1)
        self.sent += 1

    def has_delivered(self, count: int) -> bool:
        """Does the broker have so many? They get there in their order."""
        return self._there >= count

    def drain(self) -> None:
        """Wait until all are there: what is still on its way ends with this process."""
        while not self.has_delivered(self.sent):
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


if __name__ == "__main__":
    feed(Fleet.load(Path(sys.argv[1])))
