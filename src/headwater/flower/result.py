"""What a run gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Result

from headwater.files import replace
from headwater.flower.realised import Happened
from headwater.ledger.ledger import Ledger


@dataclass
class StreamResult(Result):
    """Flower's result, and what Flower does not have.

    Attributes:
        average: θ̄, the q-weighted average of the iterates; ``arrays`` is the last one.
        rounds: rounds done, those before a restart included.
        happened: what the run has written down of them; None before the first.
    """

    average: ArrayRecord = field(default_factory=ArrayRecord)
    rounds: int = 0
    happened: Happened | None = field(default=None, repr=False)

    @cached_property
    def ledger(self) -> Ledger | None:
        """Who held what with what share, as it happened; None: there was no round.

        It is worked out when it is first asked for: after a long run that takes a while, and the
        model need not wait for it.
        """
        return None if self.happened is None else self.happened.ledger()

    def forget(self, round: int) -> None:
        """Drop the metrics of a round: those of a run without an end would fill the memory."""
        for kept in (
            self.train_metrics_clientapp,
            self.evaluate_metrics_clientapp,
            self.evaluate_metrics_serverapp,
        ):
            kept.pop(round, None)

    def save(self, folder: Path) -> None:
        """Write ``average.npz`` and then ``model.npz``, arrays by the names of the parameters.

        Each is there whole or not at all; that the model is there says that the run has ended.
        """
        for name, record in (("average", self.average), ("model", self.arrays)):
            arrays = dict(zip(record.keys(), record.to_numpy_ndarrays(), strict=True))
            buffer = BytesIO()
            np.savez(buffer, allow_pickle=False, **arrays)
            replace(folder / f"{name}.npz", buffer.getvalue())
