"""Flower's simulation: FedAvg over Ray actors, one core each.

Rounds are let in by FedAvg's own hook for a server-side evaluation, which is called between rounds.
"""

# mypy: disable-error-code="import-not-found"
import functools
import os
import sys
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import Tensor

from benchmarks.harness import jobs, networks
from benchmarks.peers.flower_client import train
from benchmarks.peers.gate import Gate

ENDLESS = 10**9


class Server:
    """FedAvg with a gate between rounds."""

    def __init__(self, job: jobs.Job) -> None:
        weights = [torch.from_numpy(w) for w in job.weights]
        self.clients = job.workload.clients
        self.model, _ = networks.load(job.workload.network, weights)
        self.arrays = ArrayRecord(self.model.state_dict())
        self.gate = Gate(self.parameters, ["flwr", "ray", "torch"])

    def parameters(self) -> list[Tensor]:
        """The aggregated model in the order of the network's parameters."""
        state = self.arrays.to_torch_state_dict()
        return [state[name] for name, _ in self.model.named_parameters()]

    def between_rounds(self, _: int, arrays: ArrayRecord) -> None:
        """FedAvg calls this before the first round and after each."""
        self.arrays = arrays
        self.gate.enter()

    def main(self, grid: Grid, _: Context) -> None:
        """All clients, every round, no evaluation; the first round waits until all have
        registered."""
        strategy = FedAvg(
            fraction_evaluate=0.0, min_train_nodes=self.clients, min_available_nodes=self.clients
        )
        strategy.start(grid, self.arrays, num_rounds=ENDLESS, evaluate_fn=self.between_rounds)


def main() -> None:
    """Serve rounds of the workload in the folder given."""
    folder = Path(sys.argv[1])
    job = jobs.read(folder)
    server, client = ServerApp(), ClientApp()
    server.main()(Server(job).main)
    client.train()(functools.partial(train, folder))
    settings = {
        "init_args": {"num_cpus": len(os.sched_getaffinity(0)), "include_dashboard": False},
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    }
    run_simulation(server, client, num_supernodes=job.workload.clients, backend_config=settings)


if __name__ == "__main__":
    main()
