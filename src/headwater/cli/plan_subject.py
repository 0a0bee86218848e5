"""What ``headwater plan`` plans for: a fleet file, or a task whose ratio can be estimated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headwater.errors import InputError
from headwater.fleet import Fleet, Outlook, read
from headwater.fleet.fleet import Flags
from headwater.fleet.fleet_file import Watch
from headwater.ledger.drawing import Drawing
from headwater.planner import ratio_at
from headwater.report.plan_answer import Ratio
from headwater.report.plan_json import Json

if TYPE_CHECKING:
    from torch import nn

    from headwater.learning.estimation.measured import Measurement
    from headwater.learning.estimation.ratio import Estimate
    from headwater.learning.federation import Federation

PAPER_RATIO = 0.15
PAPER_STREAMS = 25
"""The paper's c2/c1 for CIFAR-10, and its number of fresh clients there."""

LONGEST_RUN = 2**30 - 1
"""Rounds that a ledger can count."""

_FILES = (".csv", ".toml")


@dataclass(frozen=True)
class Subject:
    """What is planned for: a fleet file or a task.

    Attributes:
        name: of the file or the task.
        outlook: its clients after the run's rounds.
        fleet: its clients as rows that can be changed; asked for by what-ifs only.
        ratio: how to get c2/c1 from what the user wrote.
        heterogeneity: how to get ρ from what the user wrote.
        notes: what is to be known about the clients beside that.
    """

    name: str
    outlook: Outlook
    fleet: Callable[[], Fleet]
    ratio: Callable[[str | None], Ratio]
    heterogeneity: Callable[[str | None], float]
    notes: list[str] = field(default_factory=list)


def is_file(name: str) -> bool:
    """Whether this names a fleet file, there or not."""
    return Path(name).suffix.lower() in _FILES or Path(name).is_file()


@dataclass(frozen=True)
class Length:
    """How long a run is and how much a round draws, as far as the user has said.

    Attributes:
        rounds: T; None: 100, or the task's own.
        local_steps: E; None: 1, or the task's own.
        batch_size: K, 0 for all that is held; None: all, or the task's own.
    """

    rounds: int | None = None
    local_steps: int | None = None
    batch_size: int | None = None

    def drawing(self, local_steps: int = 1, batch_size: int | None = None) -> Drawing:
        """What a round draws, where what was not said is as given here."""
        steps = local_steps if self.local_steps is None else self.local_steps
        batch = batch_size if self.batch_size is None else self.batch_size or None
        if steps < 1:
            raise InputError(f"--local-steps is {steps}; it must be at least 1")
        if batch is not None and batch < 1:
            raise InputError(f"--batch-size is {batch}; it must be at least 1, or 0 for all")
        return Drawing(steps, batch)


def from_file(name: str, length: Length, watch: Watch) -> Subject:
    """A fleet file; its ratio is given, or the paper's."""
    rounds = _check_rounds(100 if length.rounds is None else length.rounds)
    drawing = length.drawing()
    fleet = read(Path(name), rounds, watch)
    outlook = Outlook.of(fleet, rounds, drawing)
    return Subject(
        name=name,
        outlook=outlook,
        fleet=lambda: fleet,
        ratio=lambda text: _given(text, outlook.fresh_clients),
        heterogeneity=lambda text: _number("0" if text is None else text, "--heterogeneity"),
        notes=_notes(fleet, outlook),
    )


def _notes(fleet: Fleet, outlook: Outlook) -> list[str]:
    """What the file says and the run does not do."""
    notes = []
    still = fleet.fresh & ~outlook.fresh
    if still.any():
        notes.append(
            f"{_rows(fleet, still)} as fresh, but all samples are there in round 1 and stay: "
            "counted as historical."
        )
    late = fleet.fresh & (outlook.terms.samples < 0.99 * fleet.samples)
    if late.any():
        row = int(late.argmax())
        arrive = f"{outlook.terms.samples[row]:,.0f} of {fleet.samples[row]:,}"
        notes.append(
            f"{_rows(fleet, late)} with more samples than arrive in {outlook.rounds:,} rounds "
            f"({arrive}): the rest is not counted."
        )
    return notes


def _rows(fleet: Fleet, which: Flags) -> str:
    first = fleet.names[int(np.argmax(which))]
    more = int(which.sum()) - 1
    return f"{first!r} and {more:,} more are listed" if more else f"{first!r} is listed"


def _given(text: str | None, fresh: float) -> Ratio:
    if text is not None:
        model = "a fleet file has no model to estimate it from"
        return Ratio(_number(text, "--ratio", model), "given")
    value = ratio_at(PAPER_RATIO, PAPER_STREAMS, fresh)
    words = f"the paper's for images, at {fresh:,.0f} fresh clients; --ratio sets yours"
    return Ratio(value, words)


def _number(text: str, option: str, otherwise: str = "") -> float:
    try:
        value = float(text)
    except ValueError:
        hint = f" ({otherwise})" if otherwise else ""
        raise InputError(f"{option} is {text!r}; it must be a number, zero or more{hint}") from None
    if not 0 <= value < math.inf:
        raise InputError(f"{option} is {text}; it must be zero or more, and finite")
    return value


def from_task(
    name: str, historical: float | None, length: Length, seed: int, data_dir: Path | None
) -> Subject:
    """A task; its ratio is given, estimated the paper's way, or measured."""
    from headwater.experiments.tasks import TASKS
    from headwater.experiments.tasks.find import find_task

    if name not in TASKS and ":" not in name:
        raise InputError(
            f"{name!r} is neither a fleet file (.csv, .toml) nor a task ({', '.join(TASKS)}, "
            "or module:Class of your own)"
        )
    chosen = find_task(name, data_dir)
    usual = chosen.defaults
    rounds = _check_rounds(usual.rounds if length.rounds is None else length.rounds)
    drawing = length.drawing(usual.local_steps, usual.batch_size)
    part = 0.2 if historical is None else historical
    if not 0 < part < 1:
        raise InputError(f"--historical is {part:g}; it must be a fraction between 0 and 1")
    data = chosen.split(part, rounds, seed).final
    holdings = replace(data.holdings(rounds, seed), drawing=drawing)

    def ratio(text: str | None) -> Ratio:
        if text in (None, "estimate", "measure"):
            return _estimated(chosen.model(seed), data, rounds, seed, measured=text == "measure")
        return Ratio(_number(text or "", "--ratio", "or 'estimate', or 'measure'"), "given")

    def heterogeneity(text: str | None) -> float:
        if text in (None, "measure"):
            return _differ(chosen.model(seed), data, rounds, seed)
        return _number(text or "", "--heterogeneity", "or 'measure'")

    return Subject(
        name=f"{name}, {100 * part:g} % historical",
        outlook=Outlook.of_holdings(holdings),
        fleet=lambda: Fleet.of_clients(data.train.counts, data.arrivals, data.memory),
        ratio=ratio,
        heterogeneity=heterogeneity,
    )


def _differ(model: nn.Module, data: Federation, rounds: int, seed: int) -> float:
    """ρ, measured at the initial model."""
    from headwater.learning.estimation.heterogeneity import measure_heterogeneity

    return measure_heterogeneity(model, data, seed=seed, rounds=rounds).ratio.value


def parse_horizon(text: str) -> float:
    """A fraction of the run, or a whole number of rounds.

    >>> parse_horizon("0.25"), parse_horizon("40"), parse_horizon("1")
    (0.25, 40, 1)
    """
    try:
        return int(text) if text.strip().isdigit() else float(text)
    except ValueError:
        raise InputError(
            f"--horizon is {text!r}; it must be a fraction of the run up to 1.0, or a whole number "
            "of rounds"
        ) from None


def _estimated(
    model: nn.Module, data: Federation, rounds: int, seed: int, *, measured: bool
) -> Ratio:
    from headwater.learning.estimation import estimate, measure

    if not measured:
        found = estimate(model, data, rounds=rounds, seed=seed)
        return Ratio(found.ratio, "estimated the paper's way", _words(found), _parts(found))
    seen = measure(model, data, rounds=rounds, seed=seed)
    low, high = seen.ratio.interval
    return Ratio(
        value=seen.ratio.value,
        source=f"measured, 95 % {low:.3g} to {high:.3g}",
        words=f"{_words(seen.estimate)}\n{_measured_words(seen)}",
        parts={**_parts(seen.estimate), **_measured_parts(seen)},
    )


def _words(found: Estimate) -> str:
    norms = f"G = {found.gradient_norm:.3g}, D = {found.diameter:.3g}, B = {found.loss_bound:.3g}"
    return f"{norms}, d = {found.parameters:,}, N = {found.total_samples:,}"


def _measured_words(seen: Measurement) -> str:
    start, after, between = (
        f"{found.value:.3g} ± {found.error:.2g}"
        for found in (seen.variance_at_start, seen.variance_after_steps, seen.discrepancy)
    )
    return f"σ0² = {start} at the start, {after} after steps; disc = {between}"


def _parts(found: Estimate) -> Mapping[str, Json]:
    return {
        "G": found.gradient_norm,
        "D": found.diameter,
        "B": found.loss_bound,
        "d": found.parameters,
        "N": found.total_samples,
        "fresh_clients": found.fresh_clients,
    }


def _measured_parts(seen: Measurement) -> Mapping[str, Json]:
    return {
        "variance_at_start": asdict(seen.variance_at_start),
        "variance_after_steps": asdict(seen.variance_after_steps),
        "discrepancy": asdict(seen.discrepancy),
        "error": seen.ratio.error,
    }


def _check_rounds(rounds: int) -> int:
    if not 1 <= rounds <= LONGEST_RUN:
        raise InputError(f"--rounds is {rounds}; it must be from 1 to {LONGEST_RUN}")
    return rounds
