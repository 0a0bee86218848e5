"""FedJAX: federated averaging with its compiled loop over clients.

``jit`` is its usual backend; ``pmap`` gives one XLA device a core and deals the clients out to
them.
"""

# mypy: disable-error-code="import-not-found"
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import jobs
from benchmarks.harness.workloads import Workload
from benchmarks.peers.gate import Gate


def clients_of(job: jobs.Job, fedjax: Any, jax: Any) -> list[tuple[Any, Any, Any]]:
    """Identifier, data and key of every client; images with channels last, which XLA prefers."""
    samples = job.workload.samples
    x = (
        np.ascontiguousarray(np.moveaxis(job.x, 1, -1))
        if job.workload.network == "images"
        else job.x
    )
    x, y = x.astype(np.int32) if x.dtype == np.int64 else x, job.y.astype(np.int32)
    keys = jax.random.split(jax.random.PRNGKey(0), job.workload.clients)
    slices = [slice(m * samples, (m + 1) * samples) for m in range(job.workload.clients)]
    return [
        (m, fedjax.ClientDataset({"x": x[s], "y": y[s]}), keys[m]) for m, s in enumerate(slices)
    ]


def algorithm(workload: Workload, network: Any, fedjax: Any, jax: Any) -> Any:
    """Federated averaging with plain SGD on the clients, mini-batches in the order of the data."""

    def loss(weights: Any, batch: Any) -> Any:
        return network.loss(network.forward(weights, batch["x"]), batch["y"])

    gradient = jax.grad(loss)
    return fedjax.algorithms.fed_avg.federated_averaging(
        grad_fn=lambda weights, batch, _: gradient(weights, batch),
        client_optimizer=fedjax.optimizers.sgd(workload.learning_rate),
        server_optimizer=fedjax.optimizers.sgd(1.0),
        client_batch_hparams=fedjax.ShuffleRepeatBatchHParams(
            batch_size=workload.batch, num_epochs=None, num_steps=workload.steps, skip_shuffle=True
        ),
    )


def main() -> None:
    """Serve rounds of the workload in the folder given; the second argument names the backend."""
    folder, backend = Path(sys.argv[1]), sys.argv[2]
    if backend == "pmap":  # must be known before JAX starts
        cores = len(os.sched_getaffinity(0))
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={cores}"
    import fedjax
    import jax

    from benchmarks.peers.fedjax_networks import NETWORKS

    job = jobs.read(folder)
    network = NETWORKS[job.workload.network]
    with fedjax.for_each_client_backend(backend):
        federated = algorithm(job.workload, network, fedjax, jax)
    clients = clients_of(job, fedjax, jax)
    state = federated.init([jax.numpy.asarray(w) for w in network.from_torch(job.weights)])
    gate = Gate(lambda: network.to_torch(state.params), ["fedjax", "jax", "jaxlib"])
    for _ in gate.rounds():
        state, _diagnostics = federated.apply(state, clients)
        jax.block_until_ready(state.params)


if __name__ == "__main__":
    main()
