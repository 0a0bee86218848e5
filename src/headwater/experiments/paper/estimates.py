"""The ratio c2/c1 of a run, estimated as the paper does and measured, kept beside the results."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from headwater.errors import InputError
from headwater.experiments.cells import Setup, read_settings
from headwater.experiments.tasks.task import Task
from headwater.files import replace as write
from headwater.learning.estimation import Estimate, estimate, measure
from headwater.processes import cores


@dataclass(frozen=True)
class Ratios:
    """What the historical samples of one seed tell.

    Attributes:
        gradient_norm, diameter, loss_bound, parameters: G, D, B, d of the paper's appendix.
        estimated: c2/c1 by the paper's approximation.
        measured: c2/c1 with variance and discrepancy measured; None where the clients have too few
            samples.
        measured_error: its standard error.
        gradient_variance, discrepancy: σ0² and max disc(P_m, P_m').
    """

    gradient_norm: float
    diameter: float
    loss_bound: float
    parameters: int
    estimated: float
    measured: float | None = None
    measured_error: float | None = None
    gradient_variance: float | None = None
    discrepancy: float | None = None


def find_ratios(task: Task, setup: Setup, seed: int, folder: Path) -> Ratios:
    """Those in the folder, or else estimated now and put there."""
    file = folder / f"seed-{seed}.json"
    if not file.exists():
        write(file, json.dumps(asdict(_estimate(task, setup, seed)), indent=1).encode())
    return Ratios(**read_settings(file))


def find_all_ratios(
    task: Task, setup: Setup, seeds: Iterable[int], folder: Path, processes: int | None
) -> None:
    """Estimate for several seeds at once; a seed that fails is left to :func:`find_ratios`, which
    says why."""
    todo = [seed for seed in seeds if not (folder / f"seed-{seed}.json").exists()]
    fork = multiprocessing.get_context("fork")  # shares the data, where others would copy them
    size = processes or cores()
    for first in range(0, len(todo), size):
        group = [
            fork.Process(target=find_ratios, args=(task, setup, s, folder))
            for s in todo[first : first + size]
        ]
        for process in group:
            process.start()
        for process in group:
            process.join()


def _estimate(task: Task, setup: Setup, seed: int) -> Ratios:
    federation, model = task.split(setup.historical, setup.rounds, seed).final, task.model(seed)
    try:
        found = measure(model, federation, seed=seed, rounds=setup.rounds)
    except InputError:  # one sample a client, as with the synthetic task at 5 %, has no variance
        return _ratios(estimate(model, federation, seed=seed, rounds=setup.rounds))
    return replace(
        _ratios(found.estimate),
        measured=found.ratio.value,
        measured_error=found.ratio.error,
        gradient_variance=found.gradient_variance.value,
        discrepancy=found.discrepancy.value,
    )


def _ratios(paper: Estimate) -> Ratios:
    return Ratios(
        paper.gradient_norm, paper.diameter, paper.loss_bound, paper.parameters, paper.ratio
    )
