"""A node that speaks the wire's contract, in a thread or as a process, with samples of its own.

It learns with the learner's plain loop, and takes in its samples by rounds if its arrivals are
declared. Tests of the server need no stream and no disk; the real node has tests of its own.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from pathlib import Path

import numpy as np
import torch

from headwater.devices.wire import Frame, receive, send
from headwater.learning.engines.loop import Loop
from headwater.learning.problem import Problem
from headwater.ledger.orders import LocalWork
from headwater.ledger.rounds import Round


class ToyNode:
    def __init__(self, client, x, y, model, declared=None, memory="Keep", capacity=None):
        self.client, self.model = client, model
        self.x, self.y = torch.as_tensor(x), torch.as_tensor(y)
        self.declared, self.memory, self.capacity = declared, memory, capacity
        self.arrived = len(x) if declared is None else 0
        self.requests = []
        self.replies = {}
        self.spoil = None  # a test may change replies
        self.streams = False

    @property
    def held(self):
        return self.arrived if self.capacity is None else min(self.arrived, self.capacity)

    @property
    def historical(self):
        return not self.streams and (self.declared is None or self.declared["kind"] == "once")

    def answer(self, frame):
        header = dict(frame.header)
        self.requests.append(header)
        if header["do"] == "describe":
            return Frame(self.describe())
        if header["do"] == "evaluate":
            return Frame({"count": 10, "loss": 0.5, "metric": 0.75})
        reply = self.train(header, frame.arrays)
        return self.spoil(header, reply) if self.spoil else reply

    def describe(self):
        return {
            "client": self.client,
            "arrived": self.arrived,
            "held": self.held,
            "capacity": self.capacity,
            "memory": self.memory,
            "rate": 0.0,
            "historical": self.historical,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "declared": self.declared,
            "prequential": {"count": 0, "loss": None, "metric": None},
        }

    def train(self, header, arrays):
        key = header["run"], header["round"]
        latest = max((r for run, r in self.replies if run == header["run"]), default=0)
        if key in self.replies:
            return self.replies[key]
        if header["round"] < latest:
            return Frame.refusal("stale", f"round {header['round']}, after round {latest}")
        self.take_in(header["round"])
        reply = self.replies[key] = self.learn(header, arrays)
        return reply

    def take_in(self, round):
        if self.declared is None:
            return
        kind, samples = self.declared["kind"], self.declared["samples"]
        rate = samples if kind == "once" else self.declared["rate"] * round
        self.arrived = min(samples, rate)

    def live_stream(self):
        """Not all samples are there from the start."""
        self.streams = True

    def arrive(self, count):
        """New samples: some that came before."""
        self.x, self.y = (torch.cat([part, part[:count]]) for part in (self.x, self.y))
        self.arrived += count

    def learn(self, header, arrays):
        newest = np.arange(self.arrived - self.held, self.arrived)
        positions = arrays.get("positions", newest)
        weights = arrays.get("weights", np.full(len(positions), 1 / max(1, len(positions))))
        if not np.array_equal(positions, newest):
            return Frame.refusal("holdings differ", f"{positions} are not {newest}")
        positions, weights = positions[weights > 0], weights[weights > 0]
        client = np.array([header["client"]])
        offsets = np.array([0, len(positions)])
        round = Round(header["round"], client, np.ones(1), offsets, positions, weights)
        work = LocalWork(header["local_steps"], header["batch_size"], None, header["seed"])
        orders = work.orders(round)
        problem = Problem(self.model, self.x, self.y, seed=header["seed"])
        parameters = torch.from_numpy(np.array(arrays["parameters"]))
        move = Loop(problem).moves(parameters, orders, header["learning_rate"])
        about = {
            "run": header["run"],
            "round": header["round"],
            "samples": orders.samples.size,
            "arrived": self.arrived,
            "held": self.held,
            "rate": 1.0,
            "prequential": {"count": 4, "loss": 2.0, "recent_loss": 1.0, "recent_metric": 0.5},
        }
        return Frame(about, {"move": move.numpy()})


class Served:
    """A toy node behind a socket."""

    def __init__(self, node, path):
        self.node, self.path = node, Path(path)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self._thread = threading.Thread(target=self.serve, daemon=True)

    def serve(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                send(connection, self.safely(receive(connection)))

    def safely(self, frame):
        """A toy that breaks says so: a thread that ends in silence would be waited for."""
        try:
            return self.node.answer(frame)
        except Exception as error:
            return Frame.refusal("broken", repr(error))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.path.unlink()


def three_clients(seed=0):
    """A historical client and two streams, for a small linear model."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(100, 3)).astype(np.float32)
    y = (x @ np.array([1.0, -2.0, 0.5]) > 0).astype(np.int64)
    return [
        (x[:20], y[:20], {"kind": "once", "samples": 20}, "Keep", None),
        (x[20:60], y[20:60], {"kind": "constant", "rate": 4, "samples": 40}, "Fifo", 6),
        (x[60:], y[60:], {"kind": "constant", "rate": 5, "samples": 40}, "Fifo", 5),
    ]


def model():
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2)


def toy(number, live=False):
    x, y, declared, memory, capacity = three_clients()[number]
    return ToyNode(f"node{number}", x, y, model(), None if live else declared, memory, capacity)


if __name__ == "__main__":  # python toy_node.py SOCKET NUMBER
    path, number = sys.argv[1], int(sys.argv[2])
    Path(path).unlink(missing_ok=True)
    print(json.dumps({"ready": path}), flush=True)
    Served(toy(number), path).serve()
