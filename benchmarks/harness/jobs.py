"""A workload as files: settings, data and first weights, written once and read by every runner."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.harness.workloads import Streams, Workload

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Job:
    """A workload as a runner finds it in its folder."""

    workload: Workload
    x: Array
    y: Array
    weights: list[Array]


def write(workload: Workload, weights: list[Array], folder: Path, seed: int = 0) -> None:
    """Put the workload where the runners read it; the data are random."""
    x, y = inputs(
        workload.network, workload.first_row(workload.clients), np.random.default_rng(seed)
    )
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    np.savez(folder / "weights.npz", *weights)
    (folder / "workload.json").write_text(json.dumps(dataclasses.asdict(workload)))


def read(folder: Path) -> Job:
    """What `write` wrote."""
    workload = from_settings(json.loads((folder / "workload.json").read_text()))
    x, y = np.load(folder / "x.npy"), np.load(folder / "y.npy")
    return Job(workload, x, y, read_arrays(folder / "weights.npz"))


def from_settings(settings: dict[str, Any]) -> Workload:
    """The workload of these settings; the streaming one is known by its horizon."""
    return Streams(**settings) if "horizon" in settings else Workload(**settings)


def read_arrays(path: Path) -> list[Array]:
    """Arrays of an .npz file in the order in which they were saved."""
    with np.load(path) as stored:
        return [stored[f"arr_{place}"] for place in range(len(stored.files))]


def inputs(network: str, rows: int, random: np.random.Generator) -> tuple[Array, Array]:
    """Features and labels of the right shapes and types: speed does not depend on the values."""
    if network == "logistic":
        x = random.standard_normal((rows, 20), dtype=np.float32)
        return x, (x[:, 0] + x[:, 1] > 0.3).astype(np.int64)
    if network == "digits":
        return random.standard_normal((rows, 784), dtype=np.float32), random.integers(0, 62, rows)
    if network == "images":
        return random.standard_normal((rows, 3, 32, 32), dtype=np.float32), random.integers(
            0, 10, rows
        )
    return random.integers(0, 100, (rows, 80)), random.integers(0, 100, rows)
