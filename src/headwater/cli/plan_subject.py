"""What ``headwater plan`` plans for: a federation file, or a task whose ratio can be estimated."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headwater.errors import InputError
from headwater.fleet import Fleet, Outlook, read

PAPER_RATIO = 0.15
PAPER_STREAMS = 25
"""The paper's c2/c1 for CIFAR-10, and its number of fresh clients there."""

_FILES = (".csv", ".toml")


@dataclass(frozen=True)
class Ratio:
    """c2/c1, where it is from, and what it was made of."""

    value: float
    source: str
    parts: dict[str, Any]


@dataclass(frozen=True)
class Subject:
    """What is planned for: a federation file or a task.

    Attributes:
        name: of the file or the task.
        outlook: its clients after the run's rounds.
        fleet: its clients as rows that can be changed; asked for by what-ifs only.
        ratio: how to get c2/c1 from what the user wrote.
    """

    name: str
    outlook: Outlook
    fleet: Callable[[], Fleet]
    ratio: Callable[[str | None], Ratio]


def is_file(name: str) -> bool:
    """Does this name a federation file, there or not?"""
    return Path(name).suffix.lower() in _FILES or Path(name).is_file()


def from_file(name: str, rounds: int | None) -> Subject:
    """A federation file; its ratio is given, or the paper's."""
    length = _check_rounds(100 if rounds is None else rounds)
    fleet = read(Path(name), length)
    outlook = Outlook.of(fleet, length)
    return Subject(name, outlook, lambda: fleet, lambda text: _given(text, outlook.fresh_clients))


def _given(text: str | None, fresh: float) -> Ratio:
    if text is not None:
        return Ratio(
            _number(text, "a federation file has no model to estimate it from"), "given", {}
        )
    # c1 = σ0·D·√(M − M_hist): what a paper's ratio says about model and data is the rest of it
    value = PAPER_RATIO * math.sqrt(PAPER_STREAMS / max(1.0, fresh))
    return Ratio(
        value, f"the paper's for images, at {fresh:,.0f} fresh clients; --ratio sets yours", {}
    )


def _number(text: str, otherwise: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InputError(
            f"--ratio is {text!r}; it must be a number, zero or more ({otherwise})"
        ) from None
    if not 0 <= value < math.inf:
        raise InputError(f"--ratio is {text}; it must be zero or more, and finite")
    return value


def from_task(
    name: str, historical: float | None, rounds: int | None, seed: int, data_dir: Path | None
) -> Subject:
    """A task; its ratio is given, estimated the paper's way, or measured."""
    from headwater.experiments.tasks import TASKS
    from headwater.experiments.tasks.find import find_task

    if name not in TASKS and ":" not in name:
        raise InputError(
            f"{name!r} is neither a federation file (.csv, .toml) nor a task ({', '.join(TASKS)}, "
            "or module:Class of your own)"
        )
    chosen = find_task(name, data_dir)
    length = _check_rounds(chosen.defaults.rounds if rounds is None else rounds)
    part = 0.2 if historical is None else historical
    if not 0 < part < 1:
        raise InputError(f"--historical is {part:g}; it must be a fraction between 0 and 1")
    data = chosen.split(part, length, seed).final
    holdings = data.holdings(length, seed)

    def ratio(text: str | None) -> Ratio:
        if text in (None, "estimate", "measure"):
            return _estimated(chosen.model(seed), data, length, seed, measured=text == "measure")
        return Ratio(_number(text or "", "or 'estimate', or 'measure'"), "given", {})

    def fleet() -> Fleet:
        return Fleet.of_clients(data.train.counts, data.arrivals, data.memory)

    return Subject(
        f"{name}, {100 * part:g} % historical", Outlook.of_holdings(holdings), fleet, ratio
    )


def _estimated(model: Any, data: Any, rounds: int, seed: int, measured: bool) -> Ratio:
    from headwater.learning.estimation import estimate, measure

    if not measured:
        found = estimate(model, data, rounds=rounds, seed=seed)
        return Ratio(found.ratio, "estimated the paper's way", _parts(found))
    seen = measure(model, data, rounds=rounds, seed=seed)
    names = ("variance_at_start", "variance_after_steps", "discrepancy")
    more: dict[str, Any] = {name: asdict(getattr(seen, name)) for name in names}
    more["error"] = seen.ratio.error
    low, high = seen.ratio.interval
    return Ratio(
        seen.ratio.value, f"measured, 95 % {low:.3g} to {high:.3g}", _parts(seen.estimate) | more
    )


def _parts(found: Any) -> dict[str, Any]:
    return {
        "G": found.gradient_norm,
        "D": found.diameter,
        "B": found.loss_bound,
        "d": found.parameters,
        "N": found.total_samples,
        "fresh_clients": found.fresh_clients,
    }


def _check_rounds(rounds: int) -> int:
    if rounds < 1:
        raise InputError(f"--rounds is {rounds}; it must be at least 1")
    return rounds
