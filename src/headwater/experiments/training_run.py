"""What one training run is and what comes out of it; plain values, readable without PyTorch."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from typing import Any, NamedTuple

from headwater.errors import InputError
from headwater.ledger.strategies import Strategy


@dataclass(frozen=True)
class Setup:
    """What all runs of an experiment share.

    Attributes:
        historical: The fraction that is there before round 1, of samples or of clients: the task
            says of which (``fraction_of``).
        rounds: Communication rounds T.
        local_steps: Gradient steps of a client in a round, E.
        batch_size: Samples of a gradient step, K; None stands for the whole memory.
    """

    historical: float
    rounds: int
    local_steps: int
    batch_size: int | None


@dataclass(frozen=True)
class TrainingRun:
    """One model, learned once.

    Attributes:
        label: The strategy's name in tables and folders.
        strategy: How much each sample counts.
        seed: Of data, model, arrivals and batches.
        learning_rate: The rate η.
        rounds: How many rounds it takes; tuning runs may be shorter than the others.
        tuning: Learn from the training part and test on the validation part; otherwise learn from
            both and test on the test part.
        weights: A name for the importances that the strategy gives, where they are known before.
    """

    label: str
    strategy: Strategy
    seed: int
    learning_rate: float
    rounds: int
    tuning: bool = False
    weights: str = ""

    def identity(self, shared: Mapping[str, object]) -> str:
        """A name for all that decides how it ends; another digit anywhere gives another name.

        Args:
            shared: What it has in common with the other runs of its experiment.
        """
        own = {
            "strategy": repr(self.strategy),
            "seed": self.seed,
            "learning_rate": self.learning_rate,
            "rounds": self.rounds,
            "tuning": self.tuning,
            "weights": self.weights,
        }
        text = json.dumps({**shared, **own}, sort_keys=True)
        return sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        kind = "tuning of " if self.tuning else ""
        return f"{kind}{self.label}, seed {self.seed}, learning rate {self.learning_rate:.4g}"


class CurvePoint(NamedTuple):
    """How good the model was after a round; score and loss are means over clients."""

    round: int
    score: float
    loss: float | None


@dataclass(frozen=True)
class Outcome:
    """What came out of a run; scores are means over clients.

    A score is a test accuracy from 0 to 1, or what else the task is measured by.

    Attributes:
        score: Of the last iterate.
        loss: Of the last iterate; None if it is not finite.
        average_score: Of the q-weighted average, Algorithm 1's output.
        historical_share: What the historical clients counted together.
        effective_samples: N_eff of its ledger.
        variability: The gradients' variability of its ledger.
        samples: Gradients computed.
        seconds: Of training and testing in one thread, all starts together.
        cpu_seconds: Seconds in which the processor worked for it.
        machine: Where, and with which versions.
        diverged: What was said if it diverged; its score is 0 then.
        curve: The rounds in which it was tested.
        measure: What the scores are, by name.
        metrics: Every metric of the last iterate by its name; None if it is not finite.
        worst: The same for the worst tenth of the clients, where a metric has a better end.
    """

    score: float
    loss: float | None
    average_score: float
    historical_share: float
    effective_samples: float
    variability: float
    samples: int
    seconds: float
    cpu_seconds: float
    machine: str
    diverged: str | None = None
    curve: tuple[CurvePoint, ...] = ()
    measure: str = "accuracy"
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    worst: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def late_tests(self) -> tuple[CurvePoint, ...]:
        """The last tenth of the tests, at least one where there are any."""
        return self.curve[-math.ceil(len(self.curve) / 10) :] if self.curve else ()

    @property
    def late_score(self) -> float:
        """Mean score of the late tests: the last iterate without most of its noise."""
        late = [test.score for test in self.late_tests]
        return sum(late) / len(late) if late else self.score

    def as_json(self) -> dict[str, object]:
        """Plain values, scores by what they are, with null for numbers that are not finite."""
        plain = {**asdict(self), "curve": [list(test) for test in self.curve]}
        names = {"score": self.measure, "average_score": f"average_{self.measure}"}
        return {names.get(name, name): _finite(value) for name, value in plain.items()}

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> Outcome:
        """The reverse of :meth:`as_json`; what else is stored is left aside."""
        try:
            known = {f.name: stored[f.name] for f in fields(cls) if f.name in stored}
            measure = stored.get("measure", "accuracy")
            known |= {"score": stored[measure], "average_score": stored[f"average_{measure}"]}
            return cls(**{**known, "curve": tuple(CurvePoint(*t) for t in stored.get("curve", ()))})
        except (KeyError, TypeError) as error:
            raise InputError(f"a stored run lacks something ({error})") from error


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
