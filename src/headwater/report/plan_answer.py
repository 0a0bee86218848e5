"""All that ``headwater plan`` found out, and how it is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from headwater.fleet import Comparison, Outcome
from headwater.fleet.recommendation import recommend, remember
from headwater.report.plan_json import Json, plan_json
from headwater.report.plan_tables import LONGEST, client_table, strategy_table, what_if_table
from headwater.report.visible import visible


@dataclass(frozen=True)
class Ratio:
    """The price of few samples over the price of noise.

    Attributes:
        value: c2/c1.
        source: where it is from.
        words: what it was made of, as it is printed; empty if it was given.
        parts: the same as JSON.
    """

    value: float
    source: str
    words: str = ""
    parts: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """A plan.

    Attributes:
        name: of the fleet file or the task.
        ratio: c2/c1.
        comparison: the strategies side by side.
        outcomes: of the what-ifs, the fleet as it is first; empty if nothing was asked.
        notes: what is to be known beside that.
        pictures: where they are.
    """

    name: str
    ratio: Ratio
    comparison: Comparison
    outcomes: Sequence[Outcome] = ()
    notes: Sequence[str] = ()
    pictures: Sequence[Path] = ()

    def as_json(self) -> str:
        """The plan for a program, with every client's share."""
        about: Mapping[str, Json] = {
            "fleet": self.name,
            "ratio": {
                "value": self.ratio.value,
                "source": self.ratio.source,
                **self.ratio.parts,
            },
            "notes": list(self.notes),
            "pictures": [str(path) for path in self.pictures],
        }
        return plan_json(about, self.comparison, self.outcomes)

    def print(self, console: Console) -> None:
        """The plan for people."""
        self._print_subject(console)
        comparison = self.comparison
        console.print(strategy_table(comparison, console.width))
        console.print(recommend(comparison), markup=False, style="bold")
        if comparison.historical_suffices is not None:
            limit = f"Up to c2/c1 = {comparison.historical_suffices:.3g}"
            console.print(f"{limit} the historical clients alone would be best.")
        console.print(remember(comparison), markup=False)
        console.print()
        console.print(client_table(comparison, console.width))
        if len(comparison.outlook.names) > LONGEST:
            console.print(f"--json lists the shares of all {len(comparison.outlook.names):,} rows.")
        if self.outcomes:
            console.print(what_if_table(self.outcomes, console.width))
        for path in self.pictures:
            console.print(f"Picture: {visible(str(path))}", soft_wrap=True, markup=False)

    def _print_subject(self, console: Console) -> None:
        """What is planned for, and with which ratio."""
        o = self.comparison.outlook
        old, new = (float(o.row_samples[group].sum()) for group in (~o.fresh, o.fresh))
        console.print(
            f"{visible(self.name)}: {o.clients - o.fresh_clients:,.0f} historical clients with "
            f"{old:,.0f} samples, {o.fresh_clients:,.0f} fresh with {new:,.0f} in {o.rounds:,} "
            "rounds",
            markup=False,
        )
        if o.drawing.batch_size is not None:
            steps = "step" if o.drawing.local_steps == 1 else "steps"
            console.print(
                f"A round draws {o.drawing.local_steps:,} {steps} of {o.drawing.batch_size:,} "
                "samples from a memory; all is counted as drawn, not as held.",
                markup=False,
            )
        console.print(f"c2/c1 = {self.ratio.value:.4g} ({self.ratio.source})", markup=False)
        if self.ratio.words:
            console.print(self.ratio.words, markup=False)
        for note in self.notes:
            console.print(f"Note: {visible(note)}", markup=False)
        console.print()
