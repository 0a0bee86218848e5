"""One contender on one workload: let in, given turns, sent home; and what was seen of it."""

import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness import checks
from benchmarks.harness.contenders import Contender, Kind
from benchmarks.harness.environments import Unavailable
from benchmarks.harness.memory import Watch
from benchmarks.harness.runner import Failure, Runner
from benchmarks.harness.workloads import Workload


@dataclass(frozen=True)
class Settings:
    """How long to measure.

    Attributes:
        turns: of the contenders that decide a ratio.
        few: turns of the others: those over ``close`` times as long as the fastest of their kind.
        close: see there.
        turn: seconds of rounds in a turn, at least one round.
        budget: seconds after which a slow contender takes no further turn.
        slow: seconds of a first round after which a contender is not warmed up any further.
        patience: seconds within which a contender must be ready, and must answer.
    """

    turns: int = 5
    few: int = 2
    close: float = 1.5
    turn: float = 1.0
    budget: float = 20.0
    slow: float = 10.0
    patience: float = 300.0


@dataclass
class Entry:
    """What was seen of a contender, or why nothing was.

    Attributes:
        seconds: of the rounds in its turns; before, after: of a limit, before and after all others.
        error: distance from the right answer, in units of a round's move; None: not comparable.
        memory: largest sum over its tree of processes until it was warm, in bytes.
        first: seconds from its start to the first model that was asked for.
        cold: seconds of the round that led to it.
    """

    contender: Contender
    workload: Workload
    seconds: list[float] = field(default_factory=list)
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    error: float | None = None
    memory: int = 0
    first: float = 0.0
    cold: float = 0.0
    rounds_a_turn: int = 1
    versions: dict[str, str] = field(default_factory=dict)
    failure: str | None = None
    runner: Runner | None = None

    @property
    def median(self) -> float:
        """Seconds a round."""
        return statistics.median(self.seconds)

    @property
    def startup(self) -> float:
        """Seconds from its start to the first model that was asked for, less the rounds to it."""
        return max(0.0, self.first - self.workload.checked[0] * self.median)

    def admit(self, check: checks.Check, folder: Path, settings: Settings) -> None:
        """Start it, warm it up, let it sleep, and compare what it computed with the right
        answer."""
        try:
            command = self.contender.command(folder)
            runner = Runner(
                command, self.contender.variables, folder / f"{self.contender.name}.log"
            )
            self.runner = runner
            with Watch(runner.process.pid) as watch:
                self.versions = runner.versions(settings.patience)
                evidence = self._collect(
                    runner, folder / f"{self.contender.name}.npz", settings.patience
                )
                expected = self._warm_up(runner, settings)
            runner.pause()
            self.memory = watch.peak
            self.rounds_a_turn = max(
                1, min(self.workload.longest_turn, round(settings.turn / expected))
            )
            if self.contender.comparable(self.workload):
                self.error = check.error(evidence)
                checks.require(self.error)
        except (Failure, Unavailable) as failure:
            self.fail(failure)

    def _collect(self, runner: Runner, saved: Path, patience: float) -> checks.Evidence:
        def ask(rounds: int, saved: Path) -> None:
            self.cold = runner.rounds(rounds, patience, saved)[0]
            self.first = self.first or time.perf_counter() - runner.started

        return checks.collect(self.workload, ask, saved)

    def _warm_up(self, runner: Runner, settings: Settings) -> float:
        """Seconds that a round will take, after two more of them, or fewer if they are long.

        Ours always takes two: those that are timed belong to another run than the first.
        """
        ours = self.contender.kind is Kind.OURS
        if self.cold > settings.slow and not ours:
            return self.cold
        again = 2 if ours or self.cold <= settings.turn else 1
        return runner.rounds(again, settings.patience)[-1]

    def turn(self, seconds: list[float], settings: Settings) -> None:
        """Wake it up, time some rounds, let it sleep again."""
        assert self.runner is not None
        try:
            self.runner.resume()
            seconds.extend(self.runner.rounds(self.rounds_a_turn, settings.patience))
            self.runner.pause()
        except Failure as failure:
            self.fail(failure)

    def fail(self, failure: Exception) -> None:
        """Note why nothing is to be reported of it, and send it home."""
        self.failure = str(failure)
        self.dismiss()

    def dismiss(self) -> None:
        """End its processes."""
        if self.runner is not None:
            self.runner.end()
            self.runner = None
