"""How a run on Flower goes: everything that a user may set, checked in one place."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path

from headwater.errors import InputError
from headwater.flower.state import Projection
from headwater.ledger.forgetting import Forgetting
from headwater.ledger.orders import LocalWork
from headwater.ledger.strategies import Strategy, Uniform

Rate = float | Callable[[int], float]


@dataclass(frozen=True)
class Settings:
    """What a run needs to know; :class:`headwater.flower.StreamFedAvg` explains each of them."""

    strategy: Strategy = field(default_factory=Uniform)
    local_steps: int = 1
    batch_size: int | None = None
    learning_rate: Rate = 0.1
    seed: int = 0
    projection: Projection | None = None
    participation: float | None = None
    norm_limit: float | None = None
    min_clients: int = 1
    quorum: float = 0.5
    deadline: float | None = None
    ttl: float | None = None
    ask_again: float = 20.0
    patience: float | None = 3600.0
    catch_up: float = 4.0
    evaluate_every: int = 0
    checkpoint: Path | None = None
    metrics_port: int | None = None

    def __post_init__(self) -> None:
        _ = self.local_work  # checks its own settings
        if isinstance(self.strategy, type) or not isinstance(self.strategy, Strategy):
            raise InputError(f"strategy: hw.Uniform() or the like; got {self.strategy!r}")
        if isinstance(self.strategy, Forgetting):
            raise InputError(
                "strategy: Forgetting() hears of errors in simulations only; hw.Fading(half_life) "
                "forgets at one pace"
            )
        _whole("min_clients", self.min_clients, 1)
        _whole("evaluate_every", self.evaluate_every, 0)
        if self.metrics_port is not None:
            _whole("metrics_port", self.metrics_port, 0)
        _number("quorum", self.quorum, 0.0, 1.0)
        _number("catch_up", self.catch_up, 1.0)
        _number("ask_again", self.ask_again, 0.1)
        for name in ("deadline", "ttl", "patience", "norm_limit"):
            if getattr(self, name) is not None:
                _number(name, getattr(self, name), 1e-9)
        self.rate(1)

    @property
    def local_work(self) -> LocalWork:
        """What a client draws in a round."""
        return LocalWork(self.local_steps, self.batch_size, self.participation, self.seed)

    @property
    def longest_round(self) -> float:
        """Seconds after which a round may end without those who are missing."""
        return self.deadline or 600.0

    def rate(self, round: int) -> float:
        """η of a round."""
        rate = self.learning_rate
        value = float(rate(round) if callable(rate) else rate)
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"learning_rate: a number above 0; got {value} in round {round}")
        return value

    def fingerprint(self, parameters: int) -> str:
        """What decides the numbers of a run; a run may be resumed with other deadlines.

        Functions are known by their code and all that it uses, so that every learning rate of a
        schedule counts. The number of rounds is no part of it, as not every run depends on it:
        :class:`headwater.flower.checkpoint.Checkpoint` knows which do.
        """
        from headwater.learning.identity import digest  # needs PyTorch: not for the clients' side

        decides = {name: _plain(getattr(self, name)) for name in _DECISIVE}
        return digest(decides, parameters)[:16]


# The others say how long to wait for whom, and where things are kept.
_DECISIVE = (
    "strategy",
    "local_steps",
    "batch_size",
    "learning_rate",
    "seed",
    "projection",
    "participation",
    "norm_limit",
    "catch_up",
)


def _plain(thing: object) -> object:
    """A part of Headwater by its name and numbers: a run may go on after an upgrade."""
    own = type(thing).__module__.startswith("headwater.") and is_dataclass(thing)
    return (type(thing).__qualname__, vars(thing)) if own else thing


def _whole(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name}: a whole number, at least {least}; got {value!r}")


def _number(name: str, value: object, least: float, most: float = math.inf) -> None:
    fine = isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
    if not fine:
        limit = f"at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
        raise InputError(f"{name}: a number, {limit}; got {value!r}")
