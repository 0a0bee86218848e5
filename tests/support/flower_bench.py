"""A real Flower federation on this machine: SuperLink, SuperNodes, toy nodes, runs."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from headwater.flower.deployment.certificates import make_server_files
from headwater.flower.deployment.processes import end, environment, kill, launch, members
from headwater.flower.deployment.superlink import SuperLink, free_port, until
from headwater.flower.journal import Journal

REPOSITORY = Path(__file__).parents[2]
APP = REPOSITORY / "examples" / "flower_app"
TOY = Path(__file__).with_name("toy_node.py")


class Bench:
    """Three clients, each with a toy node and a SuperNode."""

    def __init__(self, folder, clients=3, secure=True):
        self.folder = folder
        files = make_server_files(folder / "tls") if secure else None
        self.link = SuperLink(folder, free_port(), files)
        self.parts = {"superlink": self.link.start()}
        self.ports = {m: free_port() for m in range(clients)}
        for m in range(clients):
            self.start_node(m)
            self.start_supernode(m)

    def socket(self, m):
        return self.folder / f"node{m}.sock"

    def start_node(self, m):
        command = [sys.executable, str(TOY), str(self.socket(m)), str(m)]
        sources = os.pathsep.join([str(REPOSITORY / "src"), str(TOY.parent)])
        surroundings = environment(self.folder) | {"PYTHONPATH": sources, "OMP_NUM_THREADS": "1"}
        part = self.parts[f"node{m}"] = launch(self.folder, f"node{m}", command, surroundings)
        return part

    def start_supernode(self, m):
        config = {"client-id": f"node{m}", "socket": str(self.socket(m))}
        part = self.link.start_node(f"node{m}", self.ports[m], config)
        self.parts[f"supernode{m}"] = part
        return part

    def kill(self, name):
        kill(self.parts[name].pid)

    def submit(self, checkpoint, **settings):
        pairs = {name.replace("_", "-"): value for name, value in settings.items()}
        self.run = self.link.submit(APP, {"checkpoint": str(checkpoint)} | pairs)
        return self.run

    def wait_for_round(self, checkpoint, number, seconds=180):
        """Until a round is written down; fails with the logs if it does not come."""
        journal = Journal(Path(checkpoint) / "rounds.jsonl")
        self.wait(lambda: len(journal.read()) >= number, f"round {number}", seconds)
        return journal.read()

    def wait_for_model(self, checkpoint, seconds=180):
        self.wait(lambda: (Path(checkpoint) / "model.npz").exists(), "the model", seconds)

    def wait(self, ready, what, seconds):
        began = looked = time.monotonic()
        while not ready():
            now = time.monotonic()
            if now - looked > 15:  # a look costs seconds
                looked = now
                status = self.link.status(self.run)
                if "failed" in status and not ready():
                    said = self.link.command("log", self.run, "headwater", "--show")
                    raise AssertionError(f"the run {status} before {what}\n{said[-6000:]}")
            if now > began + seconds:
                raise AssertionError(f"no {what} after {seconds} s\n{self.logs()}")
            time.sleep(0.1)

    def logs(self, lines=40):
        found = sorted((self.folder / "logs").glob("*.log"))
        return "\n".join(
            f"== {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
            for log in found
        )

    def find(self, program):
        """Process ids of this federation whose command line names a program."""
        found = []
        for pid in members(self.folder):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(program.encode() in word for word in words[:3]):
                found.append(pid)
        return found

    def close(self):
        end(self.folder)
        assert not members(self.folder)


__all__ = ["Bench", "until"]
