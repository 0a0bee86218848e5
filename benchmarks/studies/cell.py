"""``python -m benchmarks.studies.cell``: how fast one run of the paper's CIFAR-10 table is.

On one core, one thread, as the table's runs are: how long loading, partitioning and testing take,
how long a round takes, and how long plain SGD takes over the same samples (forward, backward, step;
nothing else), in turns.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import nn

from benchmarks.harness import machine
from benchmarks.harness.alternate import seconds
from headwater.experiments.tasks.cifar import Cifar10Task
from headwater.learning.algorithm import State, step
from headwater.learning.engines import choose
from headwater.learning.evaluation import evaluate
from headwater.learning.federation import Federation
from headwater.learning.problem import Problem, chunks
from headwater.ledger.ledger import Ledger
from headwater.ledger.orders import LocalWork, Orders
from headwater.ledger.strategies import Uniform

Round = Callable[[Orders], None]
TASK = Cifar10Task.defaults
WORK = LocalWork(TASK.local_steps, TASK.batch_size)


def beside_the_rounds(
    task: Cifar10Task, historical: float
) -> tuple[Federation, Ledger, dict[str, float]]:
    """What a run needs before and besides its rounds, and how many seconds each part takes."""
    found = {"loading": seconds(lambda: task.data)}
    start = time.perf_counter()
    federation = task.split(historical, TASK.rounds, 0).final
    ledger = Ledger.weigh(federation.holdings(TASK.rounds, 0), Uniform())
    found["partition and ledger"] = time.perf_counter() - start
    assert federation.test is not None
    found[f"{TASK.tests} tests"] = TASK.tests * seconds(
        partial(evaluate, task.model(0), federation.test)
    )
    return federation, ledger, found


def headwater(problem: Problem, ledger: Ledger) -> Round:
    """A round as the learner does it."""
    engine = choose(problem, WORK.orders(ledger.round(1)), workers=0)
    state = State.start(problem.initial())

    def round(orders: Orders) -> None:
        nonlocal state
        state, _ = step(state, orders, float(ledger.round_shares[orders.number - 1]), engine, 0.1)

    return round


def plain_sgd(problem: Problem, model: nn.Module, batch: int) -> Round:
    """Mini-batches of the same samples, one after the other, without a federation."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)

    def round(orders: Orders) -> None:
        rows = problem.where(orders.samples[0])
        assert isinstance(rows, torch.Tensor)
        for piece in chunks(len(rows), batch):
            x, y = problem.take(rows[piece])
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()

    return round


def measure(data_dir: Path | None, historical: float, rounds: int) -> list[str]:
    """The lines of the report."""
    torch.set_num_threads(1)
    task = Cifar10Task(data_dir)
    federation, ledger, beside = beside_the_rounds(task, historical)
    train = federation.train
    problem = Problem(task.model(0), train.x, train.y, train.row_tensor)
    contenders = {
        "Headwater": headwater(problem, ledger),
        "plain SGD, batches of 32": plain_sgd(problem, task.model(0), 32),
        "plain SGD, a round's samples in one batch": plain_sgd(problem, task.model(0), 10**6),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    middle = TASK.rounds // 2
    for number in range(middle, middle + rounds):
        orders = WORK.orders(ledger.round(number))
        for name, round in contenders.items():
            times[name].append(seconds(partial(round, orders)))
    medians = {name: statistics.median(of) for name, of in times.items()}
    whole = sum(beside.values()) + TASK.rounds * medians["Headwater"]
    return [
        f"T = {TASK.rounds}, E = {TASK.local_steps}, K = {TASK.batch_size}, {orders.samples.size} "
        "samples a round:",
        *(
            f"{name}: {1e3 * m:.0f} ms, Headwater takes {medians['Headwater'] / m:.2f}×"
            for name, m in medians.items()
        ),
        f"a run takes {whole:.0f} s, of which {100 * sum(beside.values()) / whole:.1f} % beside "
        "the rounds: " + ", ".join(f"{name} {s:.1f} s" for name, s in beside.items()),
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.cell", description=__doc__)
    parser.add_argument(
        "--data-dir", type=Path, help="where data sets are; default: the user's cache"
    )
    parser.add_argument(
        "--historical", type=float, default=0.2, help="fraction of historical samples"
    )
    parser.add_argument("--rounds", type=int, default=40, help="rounds to time")
    options = parser.parse_args()
    lines = measure(options.data_dir, options.historical, options.rounds)
    words = f"--historical {options.historical:g} --rounds {options.rounds}"
    command = f"python -m benchmarks.studies.cell {words}"
    print("\n".join([*lines, f"Measured by {machine.describe(command).words()}."]))


if __name__ == "__main__":
    main()
