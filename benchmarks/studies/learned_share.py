"""``python -m benchmarks.studies.learned_share``: can p_hist be learned during the run?

The derivative of the model by p_hist, z = dθ/dp, follows the run:

    z(t+1) = z(t) + J z(t) + (move of the historical − move of the fresh group),

where J is the derivative of a round's moves by θ. With *curvature*, J z is a finite difference of
the same round's moves along z, which doubles the cost; with a *decay*, J z = −(8/T) z, which is for
free. Then logit(p) moves against ⟨∇ loss of the new samples, z⟩, in AdaGrad's steps, so that
nothing has a unit. All is measured on validation data, beside constant shares in the same loop. It
needs the data sets (``HEADWATER_DATA``); what a seed says is kept as soon as it is known.
"""

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.harness import machine
from headwater.experiments.over_seeds import Interval
from headwater.experiments.tasks.find import find_task
from headwater.files import replace
from headwater.learning.engines import choose
from headwater.learning.engines.loop import gradient
from headwater.learning.evaluation import evaluate
from headwater.learning.federation import Federation
from headwater.learning.problem import Problem
from headwater.ledger.ledger import Ledger
from headwater.ledger.orders import LocalWork, Orders
from headwater.ledger.strategies import Share, Uniform
from headwater.randomness import Floats

GRID = (0.0, 0.2, 0.5, 0.8, 1.0)
Found = dict[str, tuple[float, float]]
"""Of one seed: each line's validation accuracy and mean share."""
Known = dict[str, dict[str, Found]]
"""By table and seed."""

_FINITE = 1e-2
"""How far along z a round is learned a second time, as a part of ‖θ‖."""


@dataclass(frozen=True)
class Setting:
    """One table: its task, fraction, learning rate and seeds; the rest are the task's defaults."""

    task: str
    historical: float
    rate: float
    seeds: int

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.task}, {100 * self.historical:g} %"


SETTINGS = (
    Setting("synthetic", 0.05, 0.316, 30),
    Setting("synthetic", 0.2, 0.1, 30),
    Setting("synthetic", 0.5, 0.1, 30),
    Setting("femnist", 0.05, 0.1, 2),
    Setting("femnist", 0.2, 0.1, 2),
)


@dataclass(frozen=True)
class Controller:
    """How the share is moved.

    Attributes:
        step: AdaGrad's step of logit(p); 0: the share is constant.
        curvature: is J z a finite difference, or a decay?
    """

    step: float = 0.0
    curvature: bool = False


CONTROLLERS = {
    "decay": Controller(0.3),
    "curvature": Controller(0.3, curvature=True),
    "curvature, large steps": Controller(1.0, curvature=True),
}


@dataclass(frozen=True)
class Outcome:
    """Validation accuracy over the last tenth of the rounds, and the mean share of the run."""

    accuracy: float
    share: float


class Sensitivity:
    """z = dθ/dp, one vector that follows the run."""

    def __init__(self, size: Tensor, decay: float) -> None:
        self.vector = torch.zeros_like(size)
        self.decay = decay

    def slope(self, new: Tensor) -> float:
        """⟨∇ loss of the new samples, z⟩: what the loss there gains with p."""
        return float(new @ self.vector)

    def follow(self, between: Tensor, bent: Tensor | None) -> None:
        """On to the next round; ``bent`` is J z, None: a decay."""
        turned = -self.decay * self.vector if bent is None else bent
        self.vector = self.vector + turned + between


class Streams:
    """One federation, of which both groups are learned apart from each other."""

    def __init__(self, setting: Setting, seed: int) -> None:
        task = find_task(setting.task)
        self.rounds = task.defaults.rounds
        self.rate = setting.rate
        self.federation: Federation = task.split(setting.historical, self.rounds, seed).tuning
        self.problem = Problem.of(task.model(seed), self.federation.train, seed=seed)
        self.holdings = self.federation.holdings(self.rounds, seed)
        self.work = LocalWork(task.defaults.local_steps, task.defaults.batch_size, seed=seed)
        self.loaded = task.model(seed)

    @property
    def uniform(self) -> float:
        """What the historical clients count if all samples count alike."""
        return float(Ledger.weigh(self.holdings, Uniform()).historical_share)

    def orders(self) -> Iterator[tuple[Orders, Orders]]:
        """The work of the historical and of the fresh clients, round by round."""
        groups = (Ledger.weigh(self.holdings, Share(p)) for p in (1.0, 0.0))
        old, new = (self.work.follow(ledger) for ledger in groups)
        return zip(old, new, strict=True)

    def new_gradient(self, parameters: Tensor, round: int) -> Tensor:
        """∇ of the mean loss of the fresh clients' samples that arrive in this round."""
        fresh = ~self.holdings.historical[self.holdings.client]
        arrived = np.flatnonzero(fresh & (self.holdings.enter == round))
        if len(arrived) == 0:
            return torch.zeros_like(parameters)
        return gradient(self.problem, parameters, arrived, _alike(len(arrived)))

    def accuracy(self, parameters: Tensor) -> float:
        """On validation data, averaged over clients."""
        assert self.federation.test is not None
        model = self.problem.load(parameters, self.loaded)
        return evaluate(model, self.federation.test).mean("accuracy")


def _alike(count: int) -> Floats:
    return np.full(count, 1 / count)


def learn(streams: Streams, start: float, controller: Controller) -> Outcome:
    """One run from a share, constant or moved."""
    parameters = streams.problem.initial()
    z = Sensitivity(parameters, 8 / streams.rounds)
    squares, shares, late = 0.0, [], []
    share = start
    with ExitStack() as stack:
        first = next(streams.orders())
        engines = [
            stack.enter_context(closing(choose(streams.problem, o, workers=0))) for o in first
        ]

        def moves(at: Tensor, work: tuple[Orders, Orders]) -> tuple[Tensor, Tensor]:
            old, new = (e.moves(at, o, streams.rate) for e, o in zip(engines, work, strict=True))
            return old, new

        for number, work in enumerate(streams.orders(), start=1):
            if controller.step > 0:
                slope = z.slope(streams.new_gradient(parameters, number)) * share * (1 - share)
                squares += slope * slope
                step = controller.step * slope / math.sqrt(squares) if squares > 0 else 0.0
                share = _moved(share, -step)
            old, new = moves(parameters, work)
            move = share * old + (1 - share) * new
            if controller.step > 0:
                bent = None
                if controller.curvature and float(z.vector.norm()) > 0:
                    # The same mini-batches a little along z, so that only the bend is left.
                    length = _FINITE * parameters.norm() / z.vector.norm()
                    there = moves(parameters + length * z.vector, work)
                    bent = (share * there[0] + (1 - share) * there[1] - move) / length
                z.follow(old - new, bent)
            parameters = parameters + move
            shares.append(share)
            if number > 0.9 * streams.rounds:
                late.append(streams.accuracy(parameters))
    return Outcome(float(np.mean(late)), float(np.mean(shares)))


def _moved(share: float, step: float) -> float:
    """A share moved in logits; 0 and 1 are out of reach."""
    return 1 / (1 + math.exp(-(math.log(share / (1 - share)) + step)))


def measured(setting: Setting, seed: int) -> Found:
    """Each line's validation accuracy and mean share."""
    streams = Streams(setting, seed)
    found = {f"{share:g}": learn(streams, share, Controller()) for share in GRID}
    found["uniform"] = learn(streams, streams.uniform, Controller())
    for name, controller in CONTROLLERS.items():
        found[name] = learn(streams, streams.uniform, controller)
    return {name: (outcome.accuracy, outcome.share) for name, outcome in found.items()}


def page(known: Known) -> str:
    """What was tried, and a line per table: the best constant share, and who is how far behind."""
    names = ("uniform", *CONTROLLERS)
    head = f"| validation accuracy | seeds | best constant | {' | '.join(names)} |"
    rows = [_row(table, list(seeds.values()), names) for table, seeds in known.items()]
    return "\n".join([_WORDS, "", head, "|---" + "|--:" * (len(names) + 2) + "|", *rows, ""])


_WORDS = """# Can the share be learned during the run?

The share of the historical clients, p, could be moved during the run instead of being chosen before
it. The derivative of the model by p follows the run, z ← z + Jz + (move of the historical clients −
move of the fresh ones), J being the derivative of a round's moves by the model, and logit(p) moves
against ⟨∇ loss of the newly arrived samples, z⟩ in AdaGrad's steps. *decay* takes Jz = −(8/T)·z,
which costs one vector; *curvature* takes a finite difference of the same round's moves along z,
which doubles the cost; its *large steps* are 1 instead of 0.3. All start at the share of `Uniform`.

Everything here is measured on validation data: mean accuracy over the last tenth of the rounds. The
best constant share of 0, 0.2, 0.5, 0.8 and 1 is chosen by the same numbers; for the other lines the
table has how far they are behind it, seed by seed with the 95 % interval, and their mean share."""


def _row(table: str, seeds: Sequence[Found], names: Sequence[str]) -> str:
    def behind(best: str, name: str) -> str:
        gap = Interval.of([found[best][0] - found[name][0] for found in seeds])
        spread = "" if gap.ci95 is None else f" ± {100 * gap.ci95:.1f}"
        share = np.mean([found[name][1] for found in seeds])
        return f"{100 * gap.mean:+.1f}{spread} pp at {share:.2f}"

    means = {f"{share:g}": Interval.of([s[f"{share:g}"][0] for s in seeds]) for share in GRID}
    best = max(means, key=lambda name: means[name].mean)
    cells = " | ".join(behind(best, name) for name in names)
    return f"| {table} | {len(seeds)} | {means[best]} % at {best} | {cells} |"


def main() -> None:
    """Measure what is not measured yet, and write the page."""
    about = argparse.ArgumentParser(
        prog="python -m benchmarks.studies.learned_share", description=__doc__
    )
    about.add_argument("--only", default="", help="tables whose names begin so")
    about.add_argument("--results", type=Path, default=Path("docs/results"))
    given = about.parse_args()
    torch.set_num_threads(1)
    file = given.results / "learned_share.json"
    known: Known = json.loads(file.read_text()) if file.exists() else {}
    for setting in SETTINGS:
        seeds = known.setdefault(setting.name, {})
        for seed in range(setting.seeds):
            if setting.name.startswith(given.only) and str(seed) not in seeds:
                seeds[str(seed)] = measured(setting, seed)
                replace(file, json.dumps(known, indent=1).encode())
                print(setting.name, seed, seeds[str(seed)], flush=True)
    measured_by = machine.describe("python -m benchmarks.studies.learned_share").words()
    remarks = given.results / "remarks" / "learned_share.md"
    text = f"{page({k: v for k, v in known.items() if v})}\n{remarks.read_text()}"
    replace(given.results / "learned_share.md", f"{text}\nWritten by {measured_by}.\n".encode())


if __name__ == "__main__":
    main()
