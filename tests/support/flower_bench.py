"""A real Flower federation on this machine: SuperLink, SuperNodes, resident nodes, runs."""

from __future__ import annotations

import contextlib
import csv
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from tap import Tap
from toy_node import three_clients

from headwater.flower.deployment.certificates import make_server_files
from headwater.flower.deployment.processes import end, environment, kill, launch, members
from headwater.flower.deployment.superlink import SuperLink, free_port, until
from headwater.flower.journal import Journal

REPOSITORY = Path(__file__).parents[2]
APP = REPOSITORY / "examples" / "flower_app"


class Bench:
    """Three clients, each with a resident node and a SuperNode; everything is started once."""

    def __init__(self, folder, secure=True, tapped=False):
        self.folder = folder
        files = make_server_files(folder / "tls") if secure else None
        self.link = SuperLink(folder, free_port(), files)
        self.ports = [free_port() for _ in range(3)]
        self.taps = [Tap(self.link.port) for _ in range(3)] if tapped else []
        self.parts = {}
        self.tried = {}  # when each SuperNode was last started
        self.generation = 0
        try:
            self.start_superlink()
            for m in range(3):
                self.start_supernode(m)
        except BaseException:
            self.close()  # a fixture that fails is not taken down
            raise

    def fresh_nodes(self):
        """Nodes with empty memories, behind the same sockets.

        The SuperNodes are new, too: on a busy machine one may still be about to hand on a question
        of the run before, and a node with an empty memory would take it for its own run's.
        """
        if self.generation:
            self.restart_supernodes()
        self.generation += 1
        for m in range(3):
            if f"node{m}" in self.parts:
                self.kill(f"node{m}")
            self.start_node(m)
        for m in range(3):
            until(self.socket(m).exists, self.parts[f"node{m}"], 120)

    def socket(self, m):
        return self.folder / f"sockets{m}" / "node.sock"

    def start_node(self, m):
        settings = self.write_node(m)
        self.socket(m).unlink(missing_ok=True)
        command = [sys.executable, "-m", "headwater", "node", str(settings)]
        surroundings = environment(self.folder) | {
            "PYTHONPATH": str(REPOSITORY / "src"),
            "OMP_NUM_THREADS": "1",
        }
        self.parts[f"node{m}"] = launch(self.folder, f"node{m}", command, surroundings)

    def write_node(self, m):
        x, y, declared, rule, capacity = three_clients()[m]
        home = self.folder / f"generation{self.generation}"
        home.mkdir(exist_ok=True)
        with open(home / f"{m}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["a", "b", "c", "label"])
            writer.writerows(
                [*(repr(float(v)) for v in row), int(k)] for row, k in zip(x, y, strict=True)
            )
        rate = f", rate = {declared['rate']}" if "rate" in declared else ""
        size = f"capacity = {capacity}" if capacity else ""
        path = home / f"{m}.toml"
        path.write_text(f"""\
client = "node{m}"
folder = "node{m}"
socket = "{self.socket(m)}"
[memory]
rule = "{rule.lower()}"
{size}
[samples]
features = ["a", "b", "c"]
label = "label"
classes = 2
[source]
kind = "csv"
path = "{m}.csv"
arrivals = {{ kind = "{declared["kind"]}"{rate} }}
""")
        return path

    def start_supernode(self, m):
        config = {"client-id": f"node{m}", "socket": str(self.socket(m))}
        self.tried[m] = time.monotonic()
        link = replace(self.link, port=self.taps[m].port) if self.taps else self.link
        self.parts[f"supernode{m}"] = link.start_node(f"node{m}", self.ports[m], config)

    def restart_supernodes(self):
        """In good order, so that the SuperLink knows that they have gone."""
        for m in range(3):
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.kill(self.parts[f"supernode{m}"].pid, signal.SIGTERM)
        for m in range(3):
            part = self.parts[f"supernode{m}"]
            until_gone = time.monotonic() + 60
            while part.alive and time.monotonic() < until_gone:
                time.sleep(0.05)
            self.start_supernode(m)

    def start_superlink(self):
        self.parts["superlink"] = self.link.start()

    def kill(self, name):
        """As a crash would end it."""
        kill(self.parts[name].pid)

    def revive(self):
        """Start again what has ended, as systemd would.

        A SuperNode needs this: after kill -9 the SuperLink takes its successor for a second one
        with the same key, and refuses it for up to a minute. Each try takes a core for seconds.
        """
        for name, part in list(self.parts.items()):
            if part.alive:
                continue
            if name == "superlink":
                self.start_superlink()
            elif name.startswith("supernode"):
                if time.monotonic() > self.tried[int(name[-1])] + 8:
                    self.start_supernode(int(name[-1]))
            else:
                self.start_node(int(name[-1]))

    def kill_program(self, program, seconds):
        """Kill the first process of a program that comes up."""
        self.wait(lambda: self.find(program), program, seconds)
        for pid in self.find(program):
            kill(pid)

    def find(self, program):
        """Processes of this federation that run a program."""
        found = []
        for pid in members(self.folder):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(Path(os.fsdecode(word)).name == program for word in words[:2]):
                found.append(pid)
        return found

    # ------------------------------------------------------------------ runs

    def submit(self, checkpoint, app=APP, **settings):
        pairs = {name.replace("_", "-"): value for name, value in settings.items()}
        # A deadline that only a hang can reach: on a busy machine a fault may take two minutes.
        fixed = {"checkpoint": str(checkpoint), "min-clients": 3, "deadline": 900.0}
        self.run = self.link.submit(app, fixed | pairs)

    def wait_for_asked(self, checkpoint, number, seconds):
        """Until a round is under way: the one before it is written down."""
        journal = Journal(Path(checkpoint) / "rounds.jsonl")
        self.wait(lambda: len(journal.read()) >= number - 1, f"round {number}", seconds)

    def wait_for_model(self, checkpoint, seconds=400):
        path = Path(checkpoint) / "model.npz"
        self.wait(path.exists, "model", seconds)
        with np.load(path) as saved:
            return np.concatenate([saved[name].reshape(-1) for name in saved.files])

    def wait(self, ready, what, seconds):
        """Until something is there; says why if it does not come."""
        began = served = time.monotonic()
        while not ready():
            now = time.monotonic()
            self.revive()
            served = now if self.find("flwr-serverapp") else served
            if now - served > 30:  # only then is it worth the seconds of a command to ask
                served = now
                status = self.link.status(self.run)
                if "failed" in status and not ready():
                    said = self.link.command("log", self.run, "headwater", "--show")
                    raise AssertionError(
                        f"the run is {status} before {what}\n{said[-6000:]}\n{self.logs()}"
                    )
            if now > began + seconds:
                raise AssertionError(f"no {what} after {seconds} s\n{self.logs()}")
            time.sleep(0.2)

    def logs(self, lines=30):
        found = sorted((self.folder / "logs").glob("*.log"))
        return "\n".join(
            f"== {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
            for log in found
        )

    def close(self):
        end(self.folder)
        for tap in self.taps:
            tap.close()
        assert not members(self.folder)
