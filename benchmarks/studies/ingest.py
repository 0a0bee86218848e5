"""Samples per second that a node takes in durably, beside bare SQLite and the bare broker.

    python -m benchmarks.studies.ingest

All contenders take the same samples in the same batches, in turns, several times; what is told are
medians and ratios of one run, in time and in CPU time, which a busy machine distorts less.

- *Bare SQLite* writes the same rows into a table of the same form with the same settings, by
  ``executemany`` from rows that lie ready: nothing is parsed, nothing checked.
- *Script* is what one would write by hand: the standard library's JSON, the fields picked, NumPy
  for the bytes, the same inserts. Nothing is checked.
- *Memory* is ours from arrays, *lines* ours from JSON: parsed, scaled, checked, counted, with the
  place in the source, all in the transaction of the samples.
- *Bare broker* counts messages and acknowledges them at once; *MQTT* is ours from the broker to
  the disk (:mod:`benchmarks.studies.ingest_broker`).
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np

from benchmarks.harness import machine
from headwater.devices.intake import Intake, flat
from headwater.devices.intake.dead_letters import DeadLetters
from headwater.devices.intake.mapping import SampleMapping
from headwater.devices.intake.waiting import WaitingSamples
from headwater.devices.memory import Batch, DurableMemory
from headwater.devices.memory.database import Database, Survives
from headwater.devices.settings.samples import SampleSettings
from headwater.ledger.memory import Keep

BATCH, FEATURES = 256, 16
SETTINGS = SampleSettings(features=tuple(f"f{k}" for k in range(FEATURES)), label="y", classes=10)
TABLE = (
    "CREATE TABLE sample (slot INTEGER PRIMARY KEY, position INTEGER NOT NULL, id TEXT, "
    "time REAL NOT NULL, round INTEGER, x BLOB NOT NULL, y BLOB NOT NULL)"
)

Row = tuple[object, ...]
Rates = tuple[float, float]  # samples per second, and per second of this process's CPU time


class Watch:
    """Runs from its making; a busy machine lengthens the one time and hardly the other."""

    def __init__(self) -> None:
        self._start, self._cpu = time.perf_counter(), time.process_time()

    def rates(self, count: int) -> Rates:
        seconds, cpu = time.perf_counter() - self._start, time.process_time() - self._cpu
        return count / seconds, count / cpu


def samples(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, FEATURES)).astype(np.float32), rng.integers(0, 10, count)


def bare_sqlite(folder: Path, survives: Survives, x: np.ndarray, y: np.ndarray) -> Rates:
    rows = [(k, k, None, 1.5, None, x[k].tobytes(), y[k].tobytes()) for k in range(len(y))]
    return _insert(folder, survives, len(y), lambda first: rows[first : first + BATCH])


def script(folder: Path, survives: Survives, x: np.ndarray, y: np.ndarray) -> Rates:
    messages, fields = _messages(x, y), SETTINGS.fields

    def rows(first: int) -> list[Row]:
        found: list[Row] = []
        for k, message in enumerate(messages[first : first + BATCH], first):
            record = json.loads(message)
            features = np.array([record[field] for field in fields], np.float32)
            label = np.int64(record["y"])
            found.append((k, k, None, time.time(), None, features.tobytes(), label.tobytes()))
        return found

    return _insert(folder, survives, len(y), rows)


def _insert(
    folder: Path,
    survives: Survives,
    count: int,
    rows: Callable[[int], Sequence[Row]],
) -> Rates:
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {'FULL' if survives == 'power loss' else 'NORMAL'}")
    connection.execute(TABLE)
    watch = Watch()
    for first in range(0, count, BATCH):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT OR REPLACE INTO sample VALUES (?,?,?,?,?,?,?)", rows(first))
        connection.execute("COMMIT")
    rates = watch.rates(count)
    connection.close()
    return rates


def memory(folder: Path, survives: Survives, x: np.ndarray, y: np.ndarray) -> Rates:
    own = open_intake(folder, survives).memory
    watch = Watch()
    for first in range(0, len(y), BATCH):
        own.take_in(Batch(x[first : first + BATCH], y[first : first + BATCH]))
    rates = watch.rates(len(y))
    own.database.close()
    return rates


def lines(folder: Path, survives: Survives, x: np.ndarray, y: np.ndarray) -> Rates:
    intake, messages = open_intake(folder, survives), _messages(x, y)
    state = intake.memory.state
    watch = Watch()
    for first in range(0, len(y), BATCH):
        intake.take(messages[first : first + BATCH], partial(state.set, "mark", first))
    rates = watch.rates(len(y))
    intake.memory.database.close()
    return rates


def malformed(folder: Path, count: int = 100_000) -> tuple[float, float]:
    """Messages per second that are no samples, and megabytes that the process grew by."""
    intake = open_intake(folder, "kill")
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


def open_intake(folder: Path, survives: Survives) -> Intake:
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


def _resident() -> float:
    """Megabytes of this process in RAM."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _in_turns(contenders: Mapping[str, Callable[[Path], Rates]], turns: int) -> dict[str, Rates]:
    rates: dict[str, list[Rates]] = {name: [] for name in contenders}
    for _ in range(turns):
        for name, contender in contenders.items():
            with tempfile.TemporaryDirectory() as folder:
                rates[name].append(contender(Path(folder)))
    return {
        name: (statistics.median(r[0] for r in values), statistics.median(r[1] for r in values))
        for name, values in rates.items()
    }


def _storage(survives: Survives, count: int, turns: int) -> None:
    x, y = samples(count)
    contenders = {"bare SQLite": bare_sqlite, "script": script, "memory": memory, "lines": lines}
    runs = {name: partial(run, survives=survives, x=x, y=y) for name, run in contenders.items()}
    rates = _in_turns(runs, turns)
    bare = rates["bare SQLite"]
    for name, (rate, cpu) in rates.items():
        ratios = f"{rate / bare[0]:.2f}x in time, {cpu / bare[1]:.2f}x in CPU time"
        print(f"survives {survives:10} {name:12} {rate:9,.0f} samples/s  {ratios}", flush=True)


def main() -> None:
    about = argparse.ArgumentParser(
        prog="python -m benchmarks.studies.ingest",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    about.add_argument("--samples", type=int, default=50_000)
    about.add_argument("--messages", type=int, default=10_000, help="through the broker; 0: none")
    about.add_argument("--turns", type=int, default=5)
    args = about.parse_args()
    reader = "pydantic_core" if flat.msgspec is None else "msgspec"
    print(machine.describe("python -m benchmarks.studies.ingest").words())
    print(
        f"{args.samples} samples of {FEATURES} features, {BATCH} a transaction, JSON by {reader},"
    )
    print(f"median of {args.turns}")
    for survives in get_args(Survives):
        _storage(survives, args.samples, args.turns)
    with tempfile.TemporaryDirectory() as folder:
        rate, grown = malformed(Path(folder))
    print(f"malformed    {rate:9,.0f} messages/s, 100,000 of them: {grown:+.1f} MB resident")
    if args.messages:
        from benchmarks.studies.ingest_broker import compare

        x, y = samples(args.messages)
        compare(_messages(x, y), args.turns, lambda folder: open_intake(folder, "kill"), BATCH)


if __name__ == "__main__":
    main()
