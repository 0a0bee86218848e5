"""A finished run: the models, the ledger, and one record per round."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor, nn

from headwater.errors import InputError
from headwater.learning import view
from headwater.learning.algorithm import Record, State
from headwater.learning.evaluation import Score
from headwater.learning.prequential import prequential_means
from headwater.learning.problem import Problem
from headwater.ledger.ledger import Ledger
from headwater.ledger.strategies import Strategy

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        strategy: how much each sample counted; an ``Optimal()`` with the ratio that was estimated.
        ledger: who held what, with what weight; ``ledger.drawn`` counts what the run's local steps,
            batch size and participation draw of it.
        history: one record per round.
        state: the end of the learning.
        problem: what was learned from what; None for a run that was loaded without its model.
        score: the last test, with one number per client; None: there was none.
        names: the clients' names, in the order of their numbers; empty: they have none.
    """

    strategy: Strategy
    ledger: Ledger
    history: list[Record]
    state: State
    problem: Problem | None
    score: Score | None = None
    names: tuple[str, ...] = ()

    @cached_property
    def model(self) -> nn.Module:
        """The model with the last iterate θ(T+1)."""
        return self._with(self.state.parameters)

    @cached_property
    def average(self) -> nn.Module:
        """The model with Algorithm 1's output, the q-weighted average θ̄."""
        return self._with(self.state.average)

    @property
    def prequential(self) -> dict[str, float]:
        """Mean loss and metrics of all samples, each tested as it arrived and before it was used.

        Empty unless the run was made with ``prequential=True``.
        """
        return prequential_means(self.history)

    def to_frame(self) -> pandas.DataFrame:
        """One row per round, as a pandas table; columns of tests are NaN in rounds without one.

        Needs pandas: ``pip install "headwater[frames]"``.
        """
        try:
            import pandas
        except ImportError as error:
            raise InputError('to_frame: pip install "headwater[frames]" for pandas') from error
        return pandas.DataFrame([record.flat() for record in self.history]).set_index("round")

    def plot(self) -> Figure:
        """Loss and metrics over the rounds, with the worst tenth of the clients beside the mean."""
        from headwater.learning.plot import plot_history  # Matplotlib takes its time to load

        return plot_history(self)

    def save(self, folder: Path | str) -> None:
        """Write all of it to a folder, for :func:`headwater.load_run`; nothing is pickled."""
        from headwater.learning.run_folder import save_run

        save_run(self, Path(folder))

    def __repr__(self) -> str:
        return view.run_text(self)

    def _repr_html_(self) -> str:
        return view.run_html(self)

    def _with(self, parameters: Tensor) -> nn.Module:
        if self.problem is None:
            raise InputError(
                "model: the folder holds parameters only; hw.load_run(folder, model=…) with a "
                "model like the one that was learned"
            )
        return self.problem.load(parameters, copy.deepcopy(self.problem.model))
