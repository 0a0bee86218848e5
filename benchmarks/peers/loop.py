"""The loop most researchers write: deepcopy, DataLoader, optim.SGD, an average of state
dictionaries."""

import copy
import sys
from pathlib import Path

import torch
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, Subset, TensorDataset

from benchmarks.harness import jobs, networks
from benchmarks.peers.gate import Gate


class Federation:
    """A server and its clients' data sets."""

    def __init__(self, job: jobs.Job) -> None:
        self.workload = job.workload
        self.model, self.loss = networks.load(
            self.workload.network, [torch.from_numpy(w) for w in job.weights]
        )
        data = TensorDataset(torch.from_numpy(job.x), torch.from_numpy(job.y))
        samples = self.workload.samples
        self.clients = [
            Subset(data, range(m * samples, (m + 1) * samples))
            for m in range(self.workload.clients)
        ]

    def round(self) -> None:
        """Train a copy at every client, then average."""
        total = sum(len(client) for client in self.clients)
        average = {name: torch.zeros_like(value) for name, value in self.model.state_dict().items()}
        for client in self.clients:
            local = self.train(client)
            for name, value in local.state_dict().items():
                average[name] += value * (len(client) / total)
        self.model.load_state_dict(average)

    def train(self, client: "Subset[tuple[Tensor, ...]]") -> nn.Module:
        """A client's copy after its local steps, mini-batches in the prescribed order."""
        local = copy.deepcopy(self.model)
        optimizer = optim.SGD(local.parameters(), lr=self.workload.learning_rate)
        for step, (x, y) in enumerate(DataLoader(client, batch_size=self.workload.batch)):
            if step == self.workload.steps:
                break
            optimizer.zero_grad()
            self.loss(local(x), y).backward()
            optimizer.step()
        return local


def main() -> None:
    """Serve rounds of the workload in the folder given."""
    federation = Federation(jobs.read(Path(sys.argv[1])))
    gate = Gate(lambda: [p.detach() for p in federation.model.parameters()], ["torch"])
    for _ in gate.rounds():
        federation.round()


if __name__ == "__main__":
    main()
