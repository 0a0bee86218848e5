"""Samples per second that a node takes in durably, beside bare SQLite and the bare broker.

    python -m benchmarks.studies.ingest

All contenders take the same samples in the same batches, in turns, several times; what is told are
medians and ratios of one run. *Bare SQLite* writes the same rows into a table of the same form with
the same settings, from rows that lie ready: the least that durable storage costs. *Memory* gets
arrays, *lines* gets JSON. *Bare broker* counts messages and acknowledges them at once; *MQTT*
is the whole way from the broker to the disk.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from headwater.devices.intake import Intake
from headwater.devices.intake.dead_letters import DeadLetters
from headwater.devices.intake.mapping import SampleMapping
from headwater.devices.intake.waiting import WaitingSamples
from headwater.devices.memory import Batch, DurableMemory
from headwater.devices.memory.database import Database, Survives
from headwater.devices.settings import Limits
from headwater.devices.settings.samples import SampleSettings
from headwater.devices.settings.sources import MqttSettings
from headwater.ledger.memory import Keep

COUNT, BATCH, FEATURES, TURNS = 50_000, 256, 16, 5
SETTINGS = SampleSettings(features=tuple(f"f{k}" for k in range(FEATURES)), label="y", classes=10)
TABLE = (
    "CREATE TABLE sample (slot INTEGER PRIMARY KEY, position INTEGER NOT NULL, id TEXT, "
    "time REAL NOT NULL, round INTEGER, x BLOB NOT NULL, y BLOB NOT NULL)"
)


Rates = tuple[float, float]  # samples per second, and per second of this process's CPU time


class Watch:
    """Runs from its making; a busy machine lengthens the one time and hardly the other."""

    def __init__(self) -> None:
        self._start, self._cpu = time.perf_counter(), time.process_time()

    def rates(self, count: int) -> Rates:
        seconds, cpu = time.perf_counter() - self._start, time.process_time() - self._cpu
        return count / seconds, count / cpu


def samples() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(COUNT, FEATURES)).astype(np.float32), rng.integers(0, 10, COUNT)


def bare_sqlite(folder: Path, survives: Survives, x: np.ndarray, y: np.ndarray) -> Rates:
    rows = [(k, k, None, 1.5, None, x[k].tobytes(), y[k].tobytes()) for k in range(len(y))]
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {'FULL' if survives == 'power loss' else 'NORMAL'}")
    connection.execute(TABLE)
    watch = Watch()
    for first in range(0, len(rows), BATCH):
        connection.execute("BEGIN IMMEDIATE")
        part = rows[first : first + BATCH]
        connection.executemany("INSERT OR REPLACE INTO sample VALUES (?,?,?,?,?,?,?)", part)
        connection.execute("COMMIT")
    rates = watch.rates(len(rows))
    connection.close()
    return rates


def memory(folder: Path, survives: Survives, x: np.ndarray, y: np.ndarray) -> Rates:
    own = _intake(folder, survives).memory
    watch = Watch()
    for first in range(0, len(y), BATCH):
        own.take_in(Batch(x[first : first + BATCH], y[first : first + BATCH]))
    rates = watch.rates(len(y))
    own.database.close()
    return rates


def lines(folder: Path, survives: Survives, x: np.ndarray, y: np.ndarray) -> Rates:
    intake, messages = _intake(folder, survives), _messages(x, y)
    state = intake.memory.state
    watch = Watch()
    for first in range(0, len(y), BATCH):
        intake.take(messages[first : first + BATCH], partial(state.set, "mark", first))
    rates = watch.rates(len(y))
    intake.memory.database.close()
    return rates


def malformed(folder: Path, count: int = 100_000) -> tuple[float, float]:
    """Messages per second that are no samples, and megabytes that the process grew by."""
    intake = _intake(folder, "kill")
    junk = [b"{", b"[1]", b"\xff" * 500, b'{"f0": "x"}', b'{"f0": NaN}']
    intake.take(junk * 50)
    before, start = _resident(), time.perf_counter()
    for _ in range(count // 250):
        intake.take(junk * 50)
    seconds, grown = time.perf_counter() - start, _resident() - before
    assert intake.memory.arrived == 0
    assert len(intake.dead_letters.all()) == 100
    intake.memory.database.close()
    return count / seconds, grown


def _intake(folder: Path, survives: Survives) -> Intake:
    mapping = SampleMapping(SETTINGS)
    database = Database(folder / "memory.db", survives)
    own = DurableMemory(database, Keep(), mapping.schema)
    waiting = WaitingSamples(database, mapping.schema.features, 0)
    return Intake(own, mapping, waiting, DeadLetters(database, 100))


def _messages(x: np.ndarray, y: np.ndarray) -> list[bytes]:
    return [
        json.dumps(
            {**{f"f{k}": round(float(v), 4) for k, v in enumerate(row)}, "y": int(label)}
        ).encode()
        for row, label in zip(x, y, strict=True)
    ]


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


def whole_way(broker: Broker, folder: Path, count: int) -> float:
    """From the broker to the disk, as a node does it."""
    from headwater.devices.sources.mqtt import MqttSource

    settings = MqttSettings(kind="mqtt", topics=("s/#",), port=broker.port, tls=False)
    source = MqttSource(settings, "node", Limits(batch=BATCH))
    intake, stop, start = _intake(folder, "kill"), threading.Event(), 0.0
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


def _resident() -> float:
    """Megabytes of this process in RAM."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _in_turns(contenders: dict[str, Callable[[Path], Rates]]) -> dict[str, Rates]:
    rates: dict[str, list[Rates]] = {name: [] for name in contenders}
    for _ in range(TURNS):
        for name, contender in contenders.items():
            with tempfile.TemporaryDirectory() as folder:
                rates[name].append(contender(Path(folder)))
    return {
        name: (statistics.median(r[0] for r in values), statistics.median(r[1] for r in values))
        for name, values in rates.items()
    }


def _storage(survives: Survives) -> None:
    x, y = samples()
    contenders = {"bare SQLite": bare_sqlite, "memory": memory, "lines": lines}
    rates = _in_turns(
        {
            name: lambda folder, run=run: run(folder, survives, x, y)  # type: ignore[misc]
            for name, run in contenders.items()
        }
    )
    bare = rates["bare SQLite"]
    for name, (rate, cpu) in rates.items():
        ratios = f"{rate / bare[0]:.2f}x in time, {cpu / bare[1]:.2f}x in CPU time"
        print(f"survives {survives:10} {name:12} {rate:9,.0f} samples/s  {ratios}", flush=True)


def _broker(count: int = 10_000) -> None:
    x, y = samples()
    messages = _messages(x[:count], y[:count])
    rates: dict[str, list[float]] = {"bare broker": [], "MQTT": []}
    for _ in range(TURNS):
        with tempfile.TemporaryDirectory() as folder:
            broker = Broker(Path(folder))
            broker.fill(messages)
            rates["bare broker"].append(bare_broker(broker, count))
            rates["MQTT"].append(whole_way(broker, Path(folder), count))
            broker.process.send_signal(signal.SIGKILL)
            broker.process.wait()
    medians = {name: statistics.median(values) for name, values in rates.items()}
    for name, rate in medians.items():
        print(f"{name:12} {rate:9,.0f} samples/s  {rate / medians['bare broker']:.2f}x", flush=True)


def main() -> None:
    print(f"{COUNT} samples of {FEATURES} features, {BATCH} a transaction, median of {TURNS}")
    for survives in ("kill", "power loss"):
        _storage(survives)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        rate, grown = malformed(Path(folder))
    print(f"malformed    {rate:9,.0f} messages/s, 100,000 of them: {grown:+.1f} MB resident")
    _broker()


if __name__ == "__main__":
    main()
