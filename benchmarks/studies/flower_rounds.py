"""Seconds of a round on Flower, beside Flower's own floor: what streams and shares cost.

    python -m benchmarks.studies.flower_rounds
    python -m benchmarks.studies.flower_rounds --rounds 10 --turns 3

Three real nodes with SuperNodes and one SuperLink, with TLS and node keys, all on this machine. In
turns, on the same SuperLink: *floor* is Flower's FedAvg with clients that send back what they were
sent; *ours* is ``StreamFedAvg`` with resident nodes that learn from what they hold. Both send as
many parameters. A round lasts from the end of the one before to its own; the first is not counted,
and the start of a run is in neither.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from headwater.flower.deployment.certificates import make_server_files
from headwater.flower.deployment.processes import end, environment, launch
from headwater.flower.deployment.superlink import SuperLink, free_port, until
from headwater.flower.journal import Journal

NODES, FEATURES, HIDDEN, CLASSES, SAMPLES = 3, 100, 1000, 10, 200
PARAMETERS = FEATURES * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES
FLOOR = Path(__file__).parent / "flower_floor_app"
OURS = Path(__file__).parents[2] / "examples" / "flower_app"
MODEL = f"""\
import torch


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear({FEATURES}, {HIDDEN}), torch.nn.ReLU(), torch.nn.Linear({HIDDEN}, {CLASSES})
    )
"""


class Federation:
    """A SuperLink, three resident nodes and their SuperNodes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.link = SuperLink(folder, free_port(), make_server_files(folder / "tls"))
        self.link.start()
        for m in range(NODES):
            socket = folder / f"s{m}" / "node.sock"
            command = [sys.executable, "-m", "headwater", "node", str(self._node_file(m, socket))]
            surroundings = environment(folder) | {"OMP_NUM_THREADS": "1"}
            part = launch(folder, f"node{m}", command, surroundings)
            config = {"client-id": f"node{m}", "socket": str(socket)}
            self.link.start_node(f"node{m}", free_port(), config)
            until(socket.exists, part, 300.0)
        shutil.copytree(OURS, folder / "app")
        (folder / "app" / "stream_app" / "model.py").write_text(MODEL)

    def _node_file(self, m: int, socket: Path) -> Path:
        rng = np.random.default_rng(m)
        names = [f"f{k}" for k in range(FEATURES)]
        labels = rng.integers(0, CLASSES, SAMPLES)
        rows = np.column_stack([rng.normal(size=(SAMPLES, FEATURES)), labels])
        table, head = self.folder / f"{m}.csv", ",".join([*names, "y"])
        np.savetxt(table, rows, delimiter=",", header=head, comments="", fmt="%.6g")
        path = self.folder / f"{m}.toml"
        path.write_text(
            f'client = "node{m}"\nfolder = "n{m}"\nsocket = "{socket}"\n'
            '[memory]\nrule = "keep"\n'
            f'[samples]\nfeatures = {names!r}\nlabel = "y"\nclasses = {CLASSES}\n'
            f'[model]\nkind = "perceptron"\nhidden = [{HIDDEN}]\n'
            f'[source]\nkind = "csv"\npath = "{table}"\narrivals = {{ kind = "once" }}\n'
        )
        return path

    def floor(self, turn: int, rounds: int) -> list[float]:
        """When each round of Flower's own ended."""
        times = self.folder / f"floor{turn}"
        self.link.submit(
            FLOOR, {"num-rounds": rounds, "parameters": PARAMETERS, "times": str(times)}
        )
        _wait(times)
        return [float(line) for line in times.read_text().split()]

    def ours(self, turn: int, rounds: int) -> list[float]:
        """When each round of ours ended."""
        run = self.folder / f"ours{turn}"
        settings = {"checkpoint": str(run), "num-rounds": rounds, "min-clients": NODES}
        waiting = {"deadline": 900.0, "ask-again": 300.0}
        self.link.submit(self.folder / "app", settings | waiting | {"batch-size": 32})
        _wait(run / "model.npz")
        entries = Journal(run / "rounds.jsonl").read()
        assert not any(entry.refused for entry in entries)
        return [entry.time for entry in entries]


def _wait(path: Path, seconds: float = 1800.0) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} did not come within {seconds:.0f} s")
        time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8, help="of a run; the first is not counted")
    parser.add_argument("--turns", type=int, default=2, help="runs of each")
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {"floor": [], "ours": []}
    with tempfile.TemporaryDirectory(prefix="hw-") as home:
        folder = Path(home)
        try:
            federation = Federation(folder)
            for turn in range(options.turns):
                for name, run in (("floor", federation.floor), ("ours", federation.ours)):
                    found = np.diff(run(turn, options.rounds)).tolist()
                    seconds[name] += found
                    print(f"turn {turn + 1}: {name} {[round(s, 1) for s in found]}", flush=True)
        finally:
            end(folder)
    floor, ours = (statistics.median(found) for found in seconds.values())
    print(f"{PARAMETERS:,} parameters, {NODES} nodes, {len(seconds['ours'])} rounds of each")
    print(f"floor {floor:.2f} s, ours {ours:.2f} s a round (medians): {ours / floor:.2f}x")


if __name__ == "__main__":
    main()
