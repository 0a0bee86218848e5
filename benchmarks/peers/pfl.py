"""pfl-research: federated averaging on the simulated backend, PyTorch's own SGD.

One process as it is, or one process a core under ``torchrun``; then the first process hears the
commands and passes them on. Clients' data are tensors with their batches cached, the path pfl
recommends for small data.
"""

# mypy: disable-error-code="import-not-found"
import sys
from pathlib import Path
from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.internal.ops.selector import get_default_framework_module as operations
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn

from benchmarks.harness import jobs, networks
from benchmarks.peers.gate import Gate

ENDLESS = 10**9


class WithLoss(nn.Module):
    """pfl wants loss and metrics as methods of the module."""

    def __init__(self, module: nn.Module, loss: networks.Loss) -> None:
        super().__init__()
        self.module = module
        self.of_batch = loss

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Mean loss of a mini-batch."""
        return self.of_batch(self.module(x), y)

    def metrics(self, *_: Tensor) -> dict[str, Any]:
        """Nothing is evaluated."""
        return {}


class Turnstile(TrainingProcessCallback):  # type: ignore[misc]
    """Lets the processes into the next round together, when it is asked for."""

    def __init__(self, model: nn.Module) -> None:
        self.first = operations().distributed.global_rank == 0
        self.several = operations().distributed.world_size > 1
        self.gate = (
            Gate(lambda: [p.detach() for p in model.parameters()], ["pfl", "torch"])
            if self.first
            else None
        )

    def on_train_begin(self, **_: Any) -> Metrics:
        """Before the first round."""
        self.stop()
        return Metrics()

    def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Metrics]:
        """After every round."""
        return self.stop(), Metrics()

    def stop(self) -> bool:
        """Wait at the gate; all processes get its answer."""
        go = torch.tensor([self.gate is None or self.gate.arrive()], dtype=torch.int32)
        if self.several:
            torch.distributed.broadcast(go, 0)
        return not bool(go.item())


def backend(job: jobs.Job) -> SimulatedBackend:
    """All clients, one after the other, every round, weighted by their numbers of samples."""
    samples, clients = job.workload.samples, job.workload.clients
    x, y = torch.from_numpy(job.x), torch.from_numpy(job.y)
    users = [
        Dataset((x[m * samples : (m + 1) * samples], y[m * samples : (m + 1) * samples]))
        for m in range(clients)
    ]
    data = FederatedDataset(
        users.__getitem__, get_user_sampler("minimize_reuse", list(range(clients)))
    )
    return SimulatedBackend(
        training_data=data, val_data=None, postprocessors=[WeightByDatapoints()]
    )


def main() -> None:
    """Serve rounds of the workload in the folder given."""
    job = jobs.read(Path(sys.argv[1]))
    workload = job.workload
    module = WithLoss(*networks.load(workload.network, [torch.from_numpy(w) for w in job.weights]))
    model = PyTorchModel(
        model=module,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
    )
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=ENDLESS,
            evaluation_frequency=ENDLESS,
            train_cohort_size=workload.clients,
            val_cohort_size=None,
        ),
        backend=backend(job),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=None,
            local_num_steps=workload.steps,
            local_learning_rate=workload.learning_rate,
            local_batch_size=workload.batch,
        ),
        callbacks=[Turnstile(module)],
        send_metrics_to_platform=False,
    )


if __name__ == "__main__":
    main()
