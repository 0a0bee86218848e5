"""The client side of Flower's simulation: a module of its own, since Ray's actors import it by
name.

The data of all clients lie in one file that every actor reads once; a client takes its rows from
it.
"""

# mypy: disable-error-code="import-not-found"
import functools
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from torch import Tensor, nn, optim

from benchmarks.harness import jobs, networks
from benchmarks.harness.workloads import Workload


@functools.cache
def actor(folder: Path) -> tuple[Workload, Tensor, Tensor, nn.Module, networks.Loss]:
    """What an actor keeps from client to client: the data and a model to train in."""
    torch.set_num_threads(1)
    job = jobs.read(folder)
    model, loss = networks.load(job.workload.network, [torch.from_numpy(w) for w in job.weights])
    return job.workload, torch.from_numpy(job.x), torch.from_numpy(job.y), model, loss


def train(folder: Path, message: Message, context: Context) -> Message:
    """The local steps of one client."""
    workload, x, y, model, loss = actor(folder)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = optim.SGD(model.parameters(), lr=workload.learning_rate)
    client = int(context.node_config["partition-id"])
    for step in range(workload.steps):
        rows = workload.rows(client, step)
        optimizer.zero_grad()
        loss(model(x[rows]), y[rows]).backward()
        optimizer.step()
    arrays, metrics = (
        ArrayRecord(model.state_dict()),
        MetricRecord({"num-examples": workload.samples}),
    )
    return Message(content=RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)
