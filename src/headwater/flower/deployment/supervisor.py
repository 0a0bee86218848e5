"""Keeps a fleet up: starts its parts, restarts those that die, submits the run again if it failed.

Run as ``python -m headwater.flower.deployment.supervisor FOLDER``, by ``headwater fleet up``. If it
is killed itself, the parts go on, nothing is restarted any more, and ``headwater fleet down`` still
ends them all.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from headwater.errors import InputError
from headwater.files import replace
from headwater.flower.deployment import broker
from headwater.flower.deployment.layout import Fleet
from headwater.flower.deployment.page import serve_page
from headwater.flower.deployment.processes import Part, environment, launch, members
from headwater.flower.deployment.superlink import SuperLink, free_port, until

log = logging.getLogger("headwater.fleet")
_SERVER = b"flwr-serverapp"  # Flower's process of a run, as its command line names it
_FEEDER = "feeder"  # the one part that may end: when all streams are published
_LOOK = 1.0  # seconds between two looks at the parts
_BACK_OFF = (1.0, 60.0)  # seconds before a part that died is started again: first, and at most
_STEADY = 300.0  # seconds after which a part that died is one that had been well


@dataclass
class Kept:
    """A part that is to live, and how to start it."""

    start: Callable[[], Part]
    part: Part
    restarts: int = 0
    failures: int = 0  # restarts since it last lived for long
    since: float = field(default_factory=time.monotonic)  # when it was last started
    due: float = 0.0  # when it may be started again


class Supervisor:
    """All parts of a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.link = SuperLink(fleet.folder, fleet.link_port, fleet.server_files)
        self._kept: dict[str, Kept] = {}
        self._ports = {name: free_port() for name in fleet.clients}
        self._run = ""
        self._missing = 0.0  # since when no server is seen at work
        self._written = b""  # what parts.json has
        self._writable = True  # whether it could be written the last time

    def start(self) -> None:
        """Everything in an order in which each finds what it needs."""
        fleet = self.fleet
        if fleet.broker:
            broker.write_configuration(fleet)
            self._keep("broker", lambda: broker.start(fleet))
        for name in fleet.clients:
            self._keep(f"node-{name}", partial(self._start_node, name))
        self._keep("superlink", self.link.start)
        if fleet.secure:
            with ThreadPoolExecutor(3) as pool:  # each takes seconds, most of it Python's start
                list(pool.map(self.link.register, fleet.clients))
        for name in fleet.clients:
            self._keep(f"supernode-{name}", partial(self._start_supernode, name))
        for name in fleet.clients:
            self._wait_for_socket(name)
        if fleet.broker:
            self._keep(_FEEDER, self._start_feeder)
        self._submit()
        log.info("the fleet is up: %s", fleet.page)

    def watch(self) -> None:
        """Look at everything once."""
        for name, kept in list(self._kept.items()):
            if name == _FEEDER and kept.part.done:
                log.info("the streams have ended: all is fed")
                del self._kept[name]
            elif not kept.part.alive:
                self._revive(name, kept)
        self._watch_run()
        self._write_parts()

    def _keep(self, name: str, start: Callable[[], Part]) -> None:
        self._kept[name] = Kept(start, start())
        self._write_parts()

    def _revive(self, name: str, kept: Kept) -> None:
        """Start a part again, the longer after the more often it died of late."""
        now = time.monotonic()
        if not kept.due:
            first, most = _BACK_OFF
            if now - kept.since >= _STEADY:
                kept.failures = 0
            kept.due = now + min(most, first * 2 ** min(kept.failures, 10))
            log.warning("%s ended; its log is %s", name, kept.part.log)
        if now >= kept.due:
            kept.due = 0.0
            kept.restarts += 1
            kept.failures += 1
            try:
                kept.part = kept.start()
            except (InputError, OSError) as error:  # also a full disk, which may have room again
                log.error("%s does not start: %s", name, error)
            kept.since = time.monotonic()

    def _start_node(self, name: str) -> Part:
        command = [sys.executable, "-m", "headwater", "node", str(self.fleet.node_file(name))]
        surroundings = environment(self.fleet.folder) | {"OMP_NUM_THREADS": "1"}
        return launch(self.fleet.folder, f"node-{name}", command, surroundings)

    def _start_supernode(self, name: str) -> Part:
        config = {"client-id": name, "socket": str(self.fleet.socket(name))}
        return self.link.start_node(name, self._ports[name], config)

    def _start_feeder(self) -> Part:
        module = "headwater.flower.deployment.feeder"
        command = [sys.executable, "-m", module, str(self.fleet.folder)]
        return launch(self.fleet.folder, _FEEDER, command, environment(self.fleet.folder))

    def _wait_for_socket(self, name: str) -> None:
        until(self.fleet.socket(name).exists, self._kept[f"node-{name}"].part, 120.0)

    # ------------------------------------------------------------------ the run

    def _submit(self) -> None:
        learning = self.fleet.learning
        self._run = self.link.submit(
            self.fleet.folder / "app",
            {
                "checkpoint": str(self.fleet.folder / "run"),
                "node": str(self.fleet.node_file(self.fleet.clients[0])),
                "num-rounds": learning.rounds,
                "strategy": learning.strategy,
                "local-steps": learning.local_steps,
                "batch-size": learning.batch_size,
                "learning-rate": learning.learning_rate,
                "seed": learning.seed,
                "min-clients": len(self.fleet.clients),
                "evaluate-every": learning.evaluate_every,
                "deadline": learning.deadline,
                "ask-again": learning.ask_again,
            },
        )
        self._missing = 0.0
        log.info("run %s is submitted", self._run)

    def _watch_run(self) -> None:
        """A run whose server is gone before its end is submitted again, and resumes."""
        if self.finished or self._serving():
            self._missing = 0.0
            return
        self._missing = self._missing or time.monotonic()
        # Flower takes some seconds to start a server; only then is it worth the price of asking.
        if time.monotonic() - self._missing < 20.0 or not self._kept["superlink"].part.alive:
            return
        try:
            status = self.link.status(self._run)
            if status.startswith("finished") or status == "unknown":
                log.warning("run %s is %s: submitting it again", self._run, status)
                self._submit()
        except (InputError, OSError) as error:
            log.error("%s", error)
        self._missing = time.monotonic()

    @property
    def finished(self) -> bool:
        """Is the model written? It is the last that a run leaves."""
        return (self.fleet.folder / "run" / "model.npz").exists()

    def _serving(self) -> bool:
        for pid in members(self.fleet.folder):
            try:
                if _SERVER in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return True
            except OSError:
                continue
        return False

    def _write_parts(self) -> None:
        """For who looks at the fleet. It goes on without: a disk that is full is said once."""
        rows = [
            {"name": name, "pid": kept.part.pid, "restarts": kept.restarts}
            for name, kept in self._kept.items()
        ]
        content = json.dumps(rows).encode()
        if content == self._written:
            return
        try:
            replace(self.fleet.folder / "parts.json", content)
            self._written, self._writable = content, True
        except OSError as error:
            if self._writable:
                log.error("what can be seen of the parts is old: %s", error)
            self._writable = False


def main(folder: Path) -> None:
    """Until a signal; the parts are ended by ``headwater fleet down``."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    fleet = Fleet.load(folder)
    serve_page(fleet)
    supervisor = Supervisor(fleet)
    supervisor.start()
    while True:
        supervisor.watch()
        time.sleep(_LOOK)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
