"""``python -m benchmarks.studies.planner``: the exact minimiser against general solvers.

Each solver gets the same federation: M clients, half of them fresh, sizes over two orders of
magnitude, a fifth of the samples historical, c2/c1 = 0.75/√(M − M_hist), which is the 0.15 of
CIFAR-10 at 50 clients and grows as the paper's formula has it. It runs in a process of its own, for
a limited time. Seconds are wall-clock for the whole answer, from arrays to importances, imports
aside; the shortest of some repeats for those that take less than two.

The gap is (ψ(p) − L)/L for a lower bound L on all ψ that weak duality gives: for any x, z with √(Σ
x²/v) ≤ c1 and √(Σ n z²) ≤ c2, min(x + z) ≤ ψ. So no answer, ours included, is taken for granted.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import multiprocessing
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection

import numpy as np
import numpy.typing as npt

from benchmarks.harness import machine
from headwater.planner import Constants, bound, bound_terms, optimal_for_target, optimal_importance

Floats = npt.NDArray[np.float64]
PACKAGES = ("headwater", "numpy", "scipy", "cvxpy", "clarabel")


@dataclass(frozen=True)
class Federation:
    """What is to be minimised: ψ or, if clients differ, the general bound for the target."""

    samples: Floats
    fresh: npt.NDArray[np.bool_]
    target: Floats
    prices: Constants

    @property
    def sizes(self) -> Floats:
        return self.samples / self.samples.sum()


def federation(clients: int, aimed: bool) -> Federation:
    random = np.random.default_rng(clients)
    fresh = np.arange(clients) >= clients // 2
    samples = 10 ** random.uniform(0, 2, clients)
    samples *= np.where(fresh, 0.8 / samples[fresh].sum(), 0.2 / samples[~fresh].sum())
    target = random.uniform(0, 1, clients) * samples
    ratio = 0.75 / math.sqrt(np.count_nonzero(fresh))
    prices = Constants(c0=0.0, c1=1.0, few_samples=ratio, discrepancy=ratio / 10 if aimed else 0.0)
    return Federation(samples, fresh, target / target.sum(), prices)


def headwater(given: Federation, _limit: float) -> Floats:
    if given.prices.discrepancy:
        return optimal_for_target(given.samples, given.fresh, given.target, given.prices).importance
    return optimal_importance(given.samples, given.fresh, given.prices.ratio).importance


def clarabel(given: Federation, limit: float) -> Floats:
    import cvxpy as cp

    p = cp.Variable(given.samples.size, nonneg=True)
    objective = cp.norm(p[np.flatnonzero(given.fresh)])
    objective += given.prices.few_samples * cp.norm(cp.multiply(1 / np.sqrt(given.sizes), p))
    if given.prices.discrepancy:
        objective += 2 * given.prices.discrepancy * cp.norm1(given.target - p)
    cp.Problem(cp.Minimize(objective), [cp.sum(p) == 1]).solve(solver=cp.CLARABEL, time_limit=limit)
    if p.value is None:
        raise TimeoutError(f"no answer within {limit:g} s")
    return np.asarray(p.value)


def _value_and_slope(p: Floats, given: Federation) -> tuple[float, Floats]:
    noise, size = math.sqrt(np.sum(p[given.fresh] ** 2)), math.sqrt(np.sum(p**2 / given.sizes))
    slope = given.fresh * p / max(noise, 1e-300) + given.prices.ratio * p / (given.sizes * size)
    return noise + given.prices.ratio * size, slope


def slsqp(given: Federation, _limit: float) -> Floats:
    from scipy.optimize import minimize

    total = {"type": "eq", "fun": lambda p: p.sum() - 1, "jac": lambda p: np.ones_like(p)}
    answer = minimize(
        _value_and_slope,
        given.sizes,
        (given,),
        "SLSQP",
        jac=True,
        bounds=[(0, 1)] * given.samples.size,
        constraints=[total],
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    return np.asarray(answer.x)


def projected_gradient(given: Federation, limit: float) -> Floats:
    """From Uniform, with a step that doubles when it works and halves when not; it ends where
    nothing moves."""
    p, step, start = given.sizes, 1.0, time.perf_counter()
    value, slope = _value_and_slope(p, given)
    while step > 1e-18 and time.perf_counter() - start < 0.95 * limit:
        trial = on_simplex(p - step * slope)
        better, tilt = _value_and_slope(trial, given)
        if better < value:
            p, value, slope, step = trial, better, tilt, 2 * step
        else:
            step /= 2
    return p


def on_simplex(point: Floats) -> Floats:
    """The nearest point of the simplex (Held, Wolfe and Crowder)."""
    down = np.sort(point)[::-1]
    level = (np.cumsum(down) - 1) / np.arange(1, point.size + 1)
    return np.maximum(point - level[np.count_nonzero(down > level) - 1], 0)


Solver = Callable[[Federation, float], Floats]
SOLVERS: dict[str, Solver] = {
    "Headwater": headwater,
    "Clarabel": clarabel,
    "SLSQP": slsqp,
    "projected gradient": projected_gradient,
}


@dataclass(frozen=True)
class Cell:
    """What one solver did with one federation."""

    clients: int
    aimed: bool
    solver: str
    seconds: float | None = None
    gap: float | None = None
    remark: str = ""

    def row(self) -> str:
        seconds = "" if self.seconds is None else f"{self.seconds:.4f}"
        gap = "" if self.gap is None else f"{self.gap:.0e}"
        bound = "any target" if self.aimed else "ψ"
        who = f"| {self.clients:>10,} | {bound:<10} | {self.solver:<18}"
        return f"{who} | {seconds:>8} | {gap:>6} | {self.remark} |"


CELLS = [Cell(clients, False, solver) for clients in (50, 3_597, 100_000) for solver in SOLVERS]
CELLS += [Cell(clients, False, "Headwater") for clients in (1_000_000, 10_000_000)]
CELLS += [
    Cell(clients, True, solver)
    for clients in (50, 3_597, 100_000)
    for solver in ("Headwater", "Clarabel")
]
CELLS += [Cell(1_000_000, True, "Headwater")]


def work(cell: Cell, limit: float, answer: Connection) -> None:
    """In a process of its own: solve once, or until two seconds are over, and send seconds and
    importances."""
    given, solver = federation(cell.clients, cell.aimed), SOLVERS[cell.solver]
    solver(federation(10, cell.aimed), limit)  # so that all is imported
    answer.send("ready")
    seconds, begin = math.inf, time.perf_counter()
    try:
        while seconds == math.inf or time.perf_counter() - begin + seconds < 2:
            start = time.perf_counter()
            p = solver(given, limit)
            seconds = min(seconds, time.perf_counter() - start)
        answer.send((seconds, p, "" if seconds < 0.95 * limit else f"stopped at {limit:g} s"))
    except (MemoryError, TimeoutError) as error:
        answer.send((None, None, str(error)))


def measure(cell: Cell, limit: float) -> Cell:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=work, args=(cell, limit, there))
    process.start()
    there.close()
    try:
        here.recv()
        if not here.poll(limit + 5):
            return replace(cell, remark=f"no answer within {limit:g} s")
        seconds, p, remark = here.recv()
    finally:
        process.kill()
        process.join()
    return replace(cell, seconds=seconds, gap=None if p is None else gap(cell, p), remark=remark)


def gap(cell: Cell, p: Floats) -> float:
    """How far above the least possible; for a target above our own answer, which the tests
    certify."""
    given, p = federation(cell.clients, cell.aimed), np.maximum(p, 0)
    p /= p.sum()
    if cell.aimed:
        best = optimal_for_target(
            given.samples, given.fresh, given.target, given.prices
        ).terms.total
        return (
            bound_terms(p, given.samples, given.fresh, given.prices, given.target).total / best - 1
        )
    best = lower_bound(given)
    return (bound(p, given.samples, given.fresh, c1=1.0, c2=given.prices.ratio) - best) / best


def lower_bound(given: Federation) -> float:
    """Weak duality, with the gradients of both norms at our answer."""
    p = headwater(given, math.inf)
    noise = given.fresh * p / math.sqrt(np.sum(p[given.fresh] ** 2))
    size = p / (given.sizes * math.sqrt(np.sum(p**2 / given.sizes)))
    return float((noise + given.prices.ratio * size).min())


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.studies.planner", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--limit", type=float, default=60.0, help="seconds that each answer may take"
    )
    options = parser.parse_args()
    about = machine.describe(" ".join(["python -m benchmarks.studies.planner", *sys.argv[1:]]))
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    if not options.json:
        print(
            about.words(),
            "; ".join(f"{name} {version}" for name, version in versions.items()),
            sep="\n",
        )
        print("\n| clients | bound | solver | seconds | gap | |\n|---:|---|---|---:|---:|---|")
    cells = []
    for cell in CELLS:
        cells.append(measure(cell, options.limit))
        if not options.json:
            print(cells[-1].row(), flush=True)
    if options.json:
        print(
            json.dumps(
                {"machine": asdict(about), "versions": versions, "cells": list(map(asdict, cells))}
            )
        )


if __name__ == "__main__":
    main()
