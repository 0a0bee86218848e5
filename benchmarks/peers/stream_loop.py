"""Streams into memories, as one writes them by hand: a list of row numbers a client, deepcopy,
optim.SGD."""

import copy
import random
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn, optim

from benchmarks.harness import jobs, networks
from benchmarks.harness.workloads import Role, Streams
from benchmarks.peers.gate import Gate


class Memory:
    """The rows that a client holds."""

    def __init__(self, role: Role, workload: Streams, first_row: int) -> None:
        self.role, self.workload, self.seen = role, workload, 0
        self.rows: list[int] = []
        self.next = first_row
        if role is Role.HISTORICAL:
            self.rows = list(range(first_row, first_row + workload.samples))

    def update(self) -> None:
        """What arrives in a round, one sample after the other."""
        if self.role is Role.HISTORICAL:
            return
        for row in range(self.next, self.next + self.workload.arriving):
            self.seen += 1
            if len(self.rows) < self.workload.capacity:
                self.rows.append(row)
            elif self.role is Role.FIFO:
                self.rows.pop(0)
                self.rows.append(row)
            elif (place := random.randrange(self.seen)) < self.workload.capacity:
                self.rows[place] = row
        self.next += self.workload.arriving


class Federation:
    """A server, its clients' memories, and the rows drawn in the last round."""

    def __init__(self, job: jobs.Job, workload: Streams) -> None:
        self.workload = workload
        self.model, self.loss = networks.load(
            workload.network, [torch.from_numpy(w) for w in job.weights]
        )
        self.x, self.y = torch.from_numpy(job.x), torch.from_numpy(job.y)
        clients = range(workload.clients)
        self.memories = [Memory(workload.role(m), workload, workload.first_row(m)) for m in clients]
        self.drawn: list[list[list[int]]] = []

    def round(self) -> None:
        """New samples, a copy trained at every client, the average by what the clients hold."""
        self.drawn = []
        for memory in self.memories:
            memory.update()
        total = sum(len(memory.rows) for memory in self.memories)
        average = {name: torch.zeros_like(value) for name, value in self.model.state_dict().items()}
        for memory in self.memories:
            local = self.train(memory)
            for name, value in local.state_dict().items():
                average[name] += value * (len(memory.rows) / total)
        self.model.load_state_dict(average)

    def train(self, memory: Memory) -> nn.Module:
        """A client's copy after its local steps, each on a mini-batch from the memory."""
        local = copy.deepcopy(self.model)
        optimizer = optim.SGD(local.parameters(), lr=self.workload.learning_rate)
        batches = [self.draw(memory) for _ in range(self.workload.steps)]
        self.drawn.append(batches)
        for rows in batches:
            optimizer.zero_grad()
            self.loss(local(self.x[rows]), self.y[rows]).backward()
            optimizer.step()
        return local

    def draw(self, memory: Memory) -> list[int]:
        """A mini-batch without replacement."""
        return random.sample(memory.rows, min(self.workload.batch, len(memory.rows)))


def main() -> None:
    """Serve rounds of the workload in the folder given."""
    job = jobs.read(Path(sys.argv[1]))
    assert isinstance(job.workload, Streams)
    random.seed(0)
    federation = Federation(job, job.workload)
    gate = Gate(
        lambda: [p.detach() for p in federation.model.parameters()],
        ["torch"],
        rows=lambda: np.array(federation.drawn),
    )
    for _ in gate.rounds():
        federation.round()


if __name__ == "__main__":
    main()
