"""What phone users do, from their phones' accelerometers: a client is a user, a sample ten seconds.

WISDM's 36 users walked, jogged, climbed stairs, sat and stood. A fraction of the users is
historical. The others come one after the other, each for a third of the run, in which their phone
sees their windows in the order of recording and keeps the newest ten. As a user does one thing for
minutes, a phone's memory is far from a fair sample of what its user does.

Of what a user did of each activity the last fifth is for testing and the fifth before it for
validation, so that nothing is tested that came before what was learned from; each user is tested on
their own windows. Features are scaled by mean and deviation over what the *historical* users learn
from, since nobody has seen the others' when the run begins; the logarithm is taken of the times
between peaks, which are spread over three decades, and unknown ones count as the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwater.experiments.data import Wisdm, load_wisdm
from headwater.experiments.data.wisdm import ACTIVITIES, FEATURES
from headwater.experiments.tasks.models import Dense
from headwater.experiments.tasks.partition import Partition, historical_clients
from headwater.experiments.tasks.scaling import Scaling
from headwater.experiments.tasks.streams import gathering
from headwater.experiments.tasks.task import Defaults, Split, part, pooled
from headwater.learning.federation import Federation, Part

_PEAK_TIMES = slice(33, 36)  # of the features
_TRAINING, _VALIDATION, _TEST = 0, 1, 2


@dataclass(frozen=True)
class ActivityTask:
    """Activities of phone users.

    Attributes:
        data_dir: Where the set's folder or archive lies; None stands for the user's cache.
        capacity: How many of its newest windows a phone keeps.
        stay: The fraction of the rounds in which a fresh user is there.
        held_out: The fraction of a user's windows of an activity for testing, and for validation.
    """

    data_dir: Path | None = None
    capacity: int = 10
    stay: float = 1 / 3
    held_out: float = 0.2

    name: ClassVar[str] = "activity"
    fraction_of: ClassVar[str] = "clients"
    defaults: ClassVar[Defaults] = Defaults(rounds=150, local_steps=5)

    @cached_property
    def data(self) -> Wisdm:
        """The windows; loaded once, and shared by processes that are forked afterwards."""
        return load_wisdm(self.data_dir)

    @property
    def complete(self) -> bool:
        """Whether the file is the whole original."""
        return self.data.complete

    def split(self, historical: float, rounds: int, seed: int) -> Split:
        """A fraction of the users is historical, the others' windows come one after the other."""
        stage = stages(self.data.client, self.data.labels, self.held_out)
        training, validation, test = (self._rows(stage == s) for s in range(3))
        everything = self._rows(stage != _TEST)
        old = historical_clients(len(self.data.names), historical, seed)
        tuning_x, final_x = self._scaled(training, old), self._scaled(everything, old)
        y = torch.from_numpy(self.data.labels)

        def federation(train: Part, tests: Part) -> Federation:
            stay = max(1, round(self.stay * rounds))
            return gathering(train, old, rounds, stay, self.capacity, seed, tests)

        return Split(
            tuning=federation(part(tuning_x, y, training), pooled(tuning_x, y, validation)),
            final=federation(part(final_x, y, everything), part(final_x, y, test)),
        )

    def model(self, seed: int) -> nn.Module:
        """One hidden layer of 64 units, 3,206 parameters."""
        return Dense(FEATURES, 64, len(ACTIVITIES), seed)

    def _scaled(self, train: Partition, old: NDArray[np.bool_]) -> Tensor:
        """All features, on the scale of what the historical users learn from."""
        features = self.data.features.astype(np.float64)
        features[:, _PEAK_TIMES] = np.log1p(features[:, _PEAK_TIMES])
        seen = train.rows[np.repeat(old, train.sizes)]
        return torch.from_numpy(Scaling.of(features[seen])(features))

    def _rows(self, chosen: NDArray[np.bool_]) -> Partition:
        """Each user's chosen windows, in order of time."""
        sizes = np.bincount(self.data.client[chosen], minlength=len(self.data.names))
        return Partition(np.flatnonzero(chosen), np.concatenate([[0], np.cumsum(sizes)]))


def stages(
    client: NDArray[np.int32], labels: NDArray[np.int64], held_out: float
) -> NDArray[np.int64]:
    """0, 1 or 2 for each window: training, validation, test.

    Of each client's windows of a label, ⌊fraction · n⌋ are for testing, its last ones, and as many
    before them for validation.

    Example:
        >>> stages(np.zeros(9, np.int32), np.array([0, 0, 1, 0, 0, 0, 1, 1, 1]), 0.25)
        array([0, 0, 0, 0, 1, 2, 0, 1, 2])
    """
    label_of_client = client.astype(np.int64) * (labels.max() + 1) + labels
    order = np.argsort(label_of_client, kind="stable")
    counts = np.unique_counts(label_of_client[order]).counts
    place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    out = np.repeat(np.floor(held_out * counts + 1e-9).astype(np.int64), counts)
    to_come = np.repeat(counts, counts) - place  # windows from this one on, itself included
    found = np.empty(len(order), np.int64)
    found[order] = np.select([to_come <= out, to_come <= 2 * out], [_TEST, _VALIDATION], _TRAINING)
    return found
