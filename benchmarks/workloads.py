"""What is computed: a network, its clients and their mini-batches, the same for every contender.

Client m owns rows ``m * samples`` to ``(m + 1) * samples`` of the data. Its local step e of every round takes the
e-th run of ``batch`` rows among them, so that contenders which read a client's data in order take the prescribed
mini-batches without being told. A round is ``steps`` such steps of plain SGD at every client, from the same
model, and the mean of the clients' models weighted by their numbers of samples.
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Workload:
    """One line of the table: who computes what, in how many steps."""

    name: str
    title: str
    network: str
    clients: int
    samples: int
    batch: int
    steps: int
    learning_rate: float

    def __post_init__(self) -> None:
        if self.steps * self.batch > self.samples:
            raise ValueError(
                f"{self.name}: {self.steps} batches of {self.batch} need more than {self.samples} rows"
            )

    def quick(self) -> Self:
        """The same with few clients: to see that everything works, not how fast it is."""
        few = max(4, self.clients // 25) if self.clients <= 1000 else 200
        return dataclasses.replace(
            self, clients=min(few, self.clients), title=f"{self.title} [cut to {few} clients]"
        )

    def rows(self, client: int, step: int) -> slice:
        """Rows of one mini-batch."""
        first = client * self.samples + step * self.batch
        return slice(first, first + self.batch)


WORKLOADS = (
    Workload("logistic-50", "logistic regression, 50 clients, E = 1", "logistic", 50, 20, 20, 1, 0.5),
    Workload("logistic-1000", "logistic regression, 1,000 clients, E = 1", "logistic", 1000, 20, 20, 1, 0.5),
    Workload(
        "logistic-100000", "logistic regression, 100,000 clients, E = 1", "logistic", 100_000, 20, 20, 1, 0.5
    ),
    Workload("digits", "784–1024–62, 100 clients, E = 5", "digits", 100, 200, 32, 5, 0.1),
    Workload("images-1", "CIFAR network, 50 clients, E = 1", "images", 50, 200, 32, 1, 0.005),
    Workload("images-5", "CIFAR network, 50 clients, E = 5", "images", 50, 200, 32, 5, 0.005),
    Workload("characters", "Shakespeare RNN, 20 clients, E = 1", "characters", 20, 200, 32, 1, 0.5),
)


def inputs(network: str, rows: int, random: np.random.Generator) -> tuple[Array, Array]:
    """Random features and labels of the right shapes and types: speed does not depend on the values."""
    if network == "logistic":
        x = random.standard_normal((rows, 20), dtype=np.float32)
        return x, (x[:, 0] + x[:, 1] > 0.3).astype(np.int64)
    if network == "digits":
        return random.standard_normal((rows, 784), dtype=np.float32), random.integers(0, 62, rows)
    if network == "images":
        return random.standard_normal((rows, 3, 32, 32), dtype=np.float32), random.integers(0, 10, rows)
    return random.integers(0, 100, (rows, 80)), random.integers(0, 100, rows)


def write(workload: Workload, weights: list[Array], folder: Path, seed: int = 0) -> None:
    """Put the workload's settings, data and first weights where the runners read them."""
    random = np.random.default_rng(seed)
    x, y = inputs(workload.network, workload.clients * workload.samples, random)
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    np.savez(folder / "weights.npz", *weights)
    (folder / "workload.json").write_text(json.dumps(dataclasses.asdict(workload)))


@dataclass(frozen=True)
class Job:
    """A workload as a runner finds it in its folder."""

    workload: Workload
    x: Array
    y: Array
    weights: list[Array]


def read(folder: Path) -> Job:
    """What `write` wrote."""
    workload = Workload(**json.loads((folder / "workload.json").read_text()))
    return Job(workload, np.load(folder / "x.npy"), np.load(folder / "y.npy"), read_arrays(folder / "weights.npz"))


def read_arrays(path: Path) -> list[Array]:
    """Arrays of an .npz file in the order in which they were saved."""
    with np.load(path) as stored:
        return [stored[name] for name in sorted(stored.files, key=lambda name: int(name.removeprefix("arr_")))]
