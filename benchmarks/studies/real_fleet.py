"""What a real fleet learns, beside the simulator and beside one model with all data in one place.

    python -m benchmarks.studies.real_fleet --strategies uniform,historical,fresh,online

For each strategy a whole federation is brought up on this machine, as ``headwater fleet up`` does:
mosquitto, SuperLink, a node and a SuperNode per station, TLS and keys, the stations' air quality
replayed live over MQTT (``--transport direct`` leaves SuperLink and SuperNodes out). The model says
from an hour's fine dust and weather whether the air will be bad six hours later. Then three
questions are asked of what the run left behind:

- Does the simulator, given the arrivals and shares of the journal, find the same parameters?
- How good is the model: test then train while the stream came, and on each station's last fifth?
- How good is one model that has all samples in one place?

Intervals are over other seeds (initial parameters and batches) of the simulator, on the arrivals of
the fleet. Every fleet has streams of its own, in real time; so strategies are compared on the same
arrivals, those of the first fleet, in the simulator, seed by seed. A fleet whose run is over is not
run again: delete its folder for that.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import nn

import headwater as hw
from benchmarks.harness import machine
from benchmarks.studies.direct_grid import DirectGrid
from benchmarks.studies.real_fleet_card import draw, table
from headwater.devices.intake.mapping import SampleMapping
from headwater.devices.memory import Batch
from headwater.devices.settings.node_file import read
from headwater.devices.sources.recording import Recording
from headwater.flower import StreamFedAvg, read_ledger
from headwater.flower.deployment import broker
from headwater.flower.deployment.layout import Fleet, Learning, prepare
from headwater.flower.deployment.processes import Part, end, environment, launch
from headwater.flower.deployment.streams import air_quality
from headwater.flower.deployment.superlink import until
from headwater.flower.importance import with_guesses
from headwater.flower.journal import Entry, Journal
from headwater.flower.plan import memory
from headwater.flower.realised import Observed, arrivals_by_round, read_state
from headwater.flower.roster import Roster
from headwater.flower.server import initial
from headwater.learning.metrics import accuracy
from headwater.ledger.registry import named

Numbers = np.ndarray


def run_fleet(folder: Path, strategy: str, args: argparse.Namespace) -> Fleet:
    """A fleet from its start to the end of its run; nothing of it is left running."""
    if (folder / "run" / "model.npz").exists():
        return Fleet.load(folder)
    streams = air_quality(args.clients)
    learning = Learning(
        strategy,
        args.rounds,
        args.local_steps,
        evaluate_every=0,  # tested here, when all is over
        deadline=args.deadline,
        ask_again=60.0,
    )
    archives = streams.clients[: args.historical]
    pace = {"capacity": args.capacity, "per_second": args.per_second}
    fleet = Fleet(folder, streams.clients, archives, **pace, learning=learning)
    prepare(fleet, streams)
    began = time.monotonic()
    try:
        (through_flower if args.transport == "flower" else directly)(fleet)
    finally:
        end(folder)
    print(f"{strategy}: fleet done in {time.monotonic() - began:.0f} s", flush=True)
    return fleet


def through_flower(fleet: Fleet) -> None:
    """All of it: SuperLink, SuperNodes, a process per message, ``flwr run``."""
    part = _launch(fleet, "supervisor", "headwater.flower.deployment.supervisor", fleet.folder)
    while not (fleet.folder / "run" / "model.npz").exists():
        if not part.alive:
            raise SystemExit(f"the fleet's supervisor ended; its log is {part.log}")
        time.sleep(2.0)


def directly(fleet: Fleet) -> None:
    """Broker, streams and nodes as they are; the server here, and sockets instead of Flower."""
    broker.write_configuration(fleet)
    broker.start(fleet)
    parts = {
        name: _launch(fleet, f"node-{name}", "headwater", "node", fleet.node_file(name))
        for name in fleet.clients
    }
    for name, part in parts.items():
        until(fleet.socket(name).exists, part, 600.0)
    _launch(fleet, "feeder", "headwater.flower.deployment.feeder", fleet.folder)
    learning = fleet.learning
    strategy = StreamFedAvg(
        named(learning.strategy),
        local_steps=learning.local_steps,
        batch_size=learning.batch_size,
        learning_rate=learning.learning_rate,
        seed=learning.seed,
        min_clients=len(fleet.clients),
        checkpoint=fleet.folder / "run",
    )
    arrays = initial(fleet.node_file(fleet.clients[0]), learning.seed)
    grid = DirectGrid({name: fleet.socket(name) for name in fleet.clients})
    strategy.start(grid, arrays, learning.rounds).save(fleet.folder / "run")


def _launch(fleet: Fleet, part: str, module: str, *words: str | Path) -> Part:
    surroundings = environment(fleet.folder) | {"OMP_NUM_THREADS": "1"}
    return launch(fleet.folder, part, [sys.executable, "-m", module, *words], surroundings)


@dataclass(frozen=True)
class Recalled:
    """A fleet's run as its files tell it, and the samples that its nodes had."""

    fleet: Fleet

    @cached_property
    def entries(self) -> list[Entry]:
        return Journal(self.fleet.folder / "run" / "rounds.jsonl").read()

    @cached_property
    def roster(self) -> Roster:
        return read_state(self.fleet.folder / "run")[0]

    @cached_property
    def samples(self) -> list[tuple[Batch, Batch]]:
        """What each client could learn from, and is tested on: read as its node reads it."""
        found = []
        for name in self.fleet.clients:
            settings = read(self.fleet.node_file(name))
            mapping = SampleMapping(settings.samples)
            files = self.fleet.folder / "data" / f"{name}.csv", settings.test.csv
            found.append(tuple(Recording.read(path, mapping).batch for path in files))
        return found

    @cached_property
    def place(self) -> list[int]:
        """The fleet's clients in the server's order."""
        return [self.fleet.clients.index(self.roster[m].name) for m in range(len(self.roster))]

    @cached_property
    def streamed(self) -> tuple[int, float]:
        """Hours of the streams that were predicted before they were learned from; how many right.

        The journal has the latest ones only; the nodes' own files have the sums over all.
        """
        states = [self.state(name) for name in self.fleet.streams]
        count = sum(int(state.get("scored", 0)) for state in states)
        right = sum(state.get("scored_metric", 0.0) for state in states)
        return count, right / max(1, count)

    def state(self, name: str) -> dict[str, float]:
        """Counters and sums that a node has kept with its memory."""
        path = self.fleet.folder / "nodes" / name / "memory.db"
        with closing(sqlite3.connect(path)) as database:
            return dict(database.execute("SELECT name, value FROM state"))

    @property
    def parameters(self) -> Numbers:
        """After the last round of the journal, also of a run that goes on."""
        with np.load(self.fleet.folder / "run" / "state.npz", allow_pickle=False) as saved:
            return saved["parameters"]

    def model(self, seed: int) -> nn.Module:
        """The model that a run with this seed begins with."""
        width = self.samples[0][0].x.shape[1]
        model = nn.Sequential(nn.Linear(width, 2))
        first = initial(self.fleet.node_file(self.fleet.clients[0]), seed)
        model.load_state_dict(first.to_torch_state_dict())
        return model

    def simulate(
        self, seed: int, test_every: int = 0, strategy: hw.Strategy | None = None
    ) -> hw.Run:
        """The same arrivals and memories in the simulator; the same shares, or a strategy's."""
        learning, clients = self.fleet.learning, []
        counts = arrivals_by_round(self.entries, self.roster)
        if strategy is None:
            strategy = hw.Given(read_ledger(self.fleet.folder / "run").weights_at)
        for m, place in enumerate(self.place):
            learned, tested = self.samples[place]
            own = slice(0, max(1, int(counts[-1, m])))
            arrivals = Observed(tuple(counts[:, m].tolist()))
            rule, test = memory(self.roster[m]), (tested.x, tested.y)
            clients.append(hw.Client(learned.x[own], learned.y[own], arrivals, rule, test=test))
        return hw.simulate(
            self.model(seed),
            clients,
            strategy,
            len(self.entries),
            learning.local_steps,
            learning.batch_size,
            learning.learning_rate,
            seed,
            test_every=test_every,
        )

    def tested(self, model: nn.Module) -> float:
        """Accuracy on all stations' last fifth, every sample alike."""
        x, y = (np.concatenate([getattr(t, part) for _, t in self.samples]) for part in "xy")
        with torch.no_grad():
            return float(accuracy(model(torch.from_numpy(x)), torch.from_numpy(y)).mean())

    def in_one_place(self, everything: bool) -> float:
        """The optimum of the mean loss over all samples that came, or over all that there are."""
        parts = []
        for name, (learned, _) in zip(self.fleet.clients, self.samples, strict=True):
            # by the nodes' own count: a server does not ask streams that have no share
            whole = everything or name in self.fleet.historical
            count = None if whole else int(self.state(name)["arrived"])
            parts.append((learned.x[:count], learned.y[:count]))
        x, y = (torch.from_numpy(np.concatenate(part)) for part in zip(*parts, strict=True))
        return self.tested(minimum(self.model(0), x, y))


def minimum(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> nn.Module:
    """A convex loss, so that there is one answer: L-BFGS until the gradient vanishes."""
    optimiser = torch.optim.LBFGS(model.parameters(), max_iter=500, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = nn.functional.cross_entropy(model(x), y)
        value.backward()
        return value

    optimiser.step(loss)
    return model


def vector(model: nn.Module) -> Numbers:
    return torch.cat([p.detach().ravel() for p in model.parameters()]).numpy()


def on_equal_arrivals(strategy: str, first: Recalled, seeds: int) -> list[float]:
    """What a strategy's models are worth on the streams of the first fleet, seed by seed."""
    rule = with_guesses(named(strategy))
    return [first.tested(first.simulate(seed, strategy=rule).model) for seed in range(seeds)]


def measure(strategy: str, recalled: Recalled, seeds: int) -> dict[str, object]:
    """One line of the table, and the curves of the picture."""
    again = recalled.simulate(recalled.fleet.learning.seed, test_every=1)
    fleet_model = recalled.model(0)
    nn.utils.vector_to_parameters(torch.from_numpy(recalled.parameters), fleet_model.parameters())
    others = [recalled.tested(recalled.simulate(seed).model) for seed in range(1, seeds)]
    spread = [recalled.tested(again.model), *others]
    scored, right = recalled.streamed
    return {
        "strategy": strategy,
        "difference": float(np.abs(vector(again.model) - recalled.parameters).max()),
        "test": recalled.tested(fleet_model),
        "simulated": spread,
        "prequential": right,
        "scored": scored,
        "came": recalled.in_one_place(everything=False),
        "everything": recalled.in_one_place(everything=True),
        "seconds": [entry.seconds for entry in recalled.entries],
        "absent": sum(share == 0 for entry in recalled.entries for share in entry.counted),
        "arrived": [recalled.state(name).get("arrived", 0) for name in recalled.fleet.clients],
        "historical": recalled_share(recalled, again),
        "curve": [record.accuracy for record in again.history],
        "stream": [entry.metrics.get("prequential-recent_metric") for entry in recalled.entries],
    }


def recalled_share(recalled: Recalled, run: hw.Run) -> float:
    """What the archives counted together over the run."""
    old = [recalled.fleet.clients[place] in recalled.fleet.historical for place in recalled.place]
    return float(run.ledger.importance[np.array(old)].sum())


def main() -> None:
    about = argparse.ArgumentParser(
        prog="python -m benchmarks.studies.real_fleet",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    about.add_argument("--folder", type=Path, default=Path("/tmp/headwater-fleets"))
    about.add_argument("--out", type=Path, default=Path("docs/results"), help="JSON and picture")
    about.add_argument("--strategies", default="uniform,historical,fresh,online")
    about.add_argument(
        "--transport",
        choices=("flower", "direct"),
        default="flower",
        help="direct: the server asks the nodes' sockets itself; rounds take their own time only",
    )
    about.add_argument("--clients", type=int, default=4)
    about.add_argument("--historical", type=int, default=1, help="of them, archives")
    about.add_argument("--rounds", type=int, default=12)
    about.add_argument("--local-steps", type=int, default=5)
    about.add_argument("--capacity", type=int, default=128)
    about.add_argument("--per-second", type=float, default=10.0, help="samples of each stream")
    about.add_argument("--deadline", type=float, default=600.0, help="seconds for a round")
    about.add_argument("--seeds", type=int, default=10, help="of the simulator, for intervals")
    args = about.parse_args()
    found, first = [], None
    for strategy in args.strategies.split(","):
        recalled = Recalled(run_fleet(args.folder.resolve() / strategy, strategy, args))
        first = first or recalled
        equal = on_equal_arrivals(strategy, first, args.seeds)
        found.append(measure(strategy, recalled, args.seeds) | {"equal": equal})
        settings = {k: str(v) for k, v in vars(args).items() if k not in ("folder", "out")}
        here = machine.describe("python -m benchmarks.studies.real_fleet")
        content = {"machine": asdict(here), "settings": settings, "runs": found}
        (args.out / "fleet.json").write_text(json.dumps(content, indent=1) + "\n")
        draw(found, args.out / "fleet.png")
        print(table(found), flush=True)


if __name__ == "__main__":
    main()
