"""Nodes in this process, for a federation of clients that the simulator knows too."""

from __future__ import annotations

import csv

import numpy as np
import torch

import headwater as hw
from headwater.devices.node.node import Node
from headwater.devices.settings import NodeSettings
from headwater.devices.wire import Frame

FIELDS = ["a", "b", "c"]


def write_csv(path, x, y):
    """Samples as a file; numbers are written so that they are read back exactly."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([*FIELDS, "label"])
        rows.writerows(
            [*map(repr, map(float, row)), int(label)] for row, label in zip(x, y, strict=True)
        )
    return path


def node_settings(folder, **changes):
    """Settings of a small node; a replay by rounds unless changed."""
    content = {
        "client": "a",
        "number": 0,
        "folder": folder,
        "memory": {"rule": "keep"},
        "samples": {"features": FIELDS, "label": "label", "classes": 3},
        **changes,
    }
    return NodeSettings.model_validate(content)


class Parameters:
    """Parameters of a small model, from a seed."""

    @staticmethod
    def of(node, seed=0):
        kind = node.problem.initial().numpy().dtype
        return np.random.default_rng(seed).normal(size=node.problem.size).astype(kind) / 3


def train(node, parameters, run="r", round=1, client=0, arrays=None, **order):
    """Ask a node to train."""
    settings = {"local_steps": 1, "batch_size": None, "learning_rate": 0.1, "seed": 0}
    header = {"do": "train", "run": run, "round": round, "client": client, **settings, **order}
    return node.answer(Frame(header, {"parameters": parameters, **(arrays or {})}))


def samples(count, seed=0):
    """Features and labels with something to learn."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 3)).astype(np.float32)
    return x, (x @ rng.normal(size=(3, 3))).argmax(1)


def play(nodes, ledger, model, rounds, local_steps, batch_size, learning_rate, seed):
    """A server's part of Algorithm 1: shares from the ledger, moves from the nodes."""
    parameters = torch.cat([p.detach().reshape(-1) for p in model.parameters()]).numpy()
    holdings = ledger.holdings
    for t in range(1, rounds + 1):
        weights, now = ledger.weights_at(t), ledger.round(t)
        total = np.zeros_like(parameters)
        for m, share in zip(now.clients, now.shares, strict=True):
            mine = slice(holdings.offsets[m], holdings.offsets[m + 1])
            positions = np.flatnonzero(holdings.held(t)[mine])
            arrays = {"positions": positions, "weights": weights[mine][positions]}
            work = {"local_steps": local_steps, "batch_size": batch_size, "seed": seed}
            reply = train(
                nodes[m], parameters, "r", t, int(m), arrays, learning_rate=learning_rate, **work
            )
            assert "error" not in reply.header, reply.header
            total += np.float32(share) * reply.arrays["move"]
        parameters = parameters + total
    return parameters


def federation(folder, clients, seed):
    """The same clients twice: for the simulator, and as nodes that replay by rounds."""
    known, nodes = [], []
    for m, (count, arrivals, words, rule, memory) in enumerate(clients):
        x, y = samples(count, seed=100 + m)
        known.append(hw.Client(x, y, arrivals, rule))
        path = write_csv(folder / f"{m}.csv", x, y)
        source = {"kind": "csv", "path": path, "arrivals": words}
        settings = node_settings(
            folder / str(m), client=f"c{m}", number=m, seed=seed, memory=memory, source=source
        )
        nodes.append(Node(settings))
    return known, nodes
