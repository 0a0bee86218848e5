"""Any task with streams that change: from some round on, new samples follow another rule.

The paper assumes that a client's distribution stays as it is, and names streams that change as its
open question. Here a sample that arrives after the change has other labels (classes change places
in pairs, 0 with 1, 2 with 3; a number to forecast changes its sign) or other features (all change
their signs, as with a sensor that was mounted the wrong way round). What is there in round 1 is as
it was. Tests are of how things are in the last round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from headwater.errors import InputError
from headwater.experiments.tasks.partition import generator
from headwater.experiments.tasks.task import Defaults, Split, Task
from headwater.learning.federation import Federation, Part
from headwater.randomness import Floats

Course = Literal["sudden", "gradual", "back and forth"]
What = Literal["labels", "features"]
_SPAN = 0.2  # of the run: how long a gradual change takes, and a phase of one that goes back


@dataclass(frozen=True)
class Drifting:
    """A task whose streams change.

    Attributes:
        task: What it is without the change.
        course: "sudden"; "gradual", when ever more of the new samples follow the new rule; or
            "back and forth", when old and new take turns.
        what: "labels" or "features".
        at: When the change begins, as a fraction of the run.

    Example:
        >>> from headwater.experiments.tasks.synthetic import Synthetic
        >>> Drifting(Synthetic()).new(rounds=10).tolist()
        [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """

    task: Task
    course: Course = "sudden"
    what: What = "labels"
    at: float = 0.5

    def __post_init__(self) -> None:
        if self.course not in _COURSES:
            raise InputError(f"course: one of {', '.join(_COURSES)}; got {self.course!r}")
        if self.what not in ("labels", "features"):
            raise InputError(f"what: labels or features; got {self.what!r}")
        if not 0 < self.at < 1:
            raise InputError(f"at: a fraction of the run between 0 and 1; got {self.at!r}")

    @property
    def name(self) -> str:
        """The task's name, and that it drifts."""
        return f"{self.task.name}-{self.course.replace(' ', '-')}-{self.what}"

    @property
    def fraction_of(self) -> str:
        """As in the task."""
        return self.task.fraction_of

    @property
    def defaults(self) -> Defaults:
        """As in the task."""
        return self.task.defaults

    @property
    def complete(self) -> bool:
        """As in the task."""
        return self.task.complete

    def model(self, seed: int) -> nn.Module:
        """As in the task."""
        return self.task.model(seed)

    def new(self, rounds: int) -> Floats:
        """How many of the samples that arrive in each round follow the new rule."""
        when = (np.arange(rounds) + 0.5) / rounds
        return _COURSES[self.course](when - self.at)

    def split(self, historical: float, rounds: int, seed: int) -> Split:
        """As in the task, with other labels or features for what arrives after the change."""
        split = self.task.split(historical, rounds, seed)
        return Split(
            tuning=self._changed(split.tuning, rounds, seed),
            final=self._changed(split.final, rounds, seed),
        )

    def _changed(self, federation: Federation, rounds: int, seed: int) -> Federation:
        new = np.append(self.new(rounds), 0.0)  # what never arrives never changes
        arrival = np.minimum(federation.holdings(rounds, seed).enter, rounds + 1)
        chance = np.where(arrival > 1, new[arrival - 1], 0.0)
        late = generator(seed, "drift").random(len(chance)) < chance
        train = self._part(federation.train, late)
        ends_new = new[rounds - 1] > 0.5
        test = federation.test
        if test is not None and ends_new:
            test = self._part(test, np.ones(int(test.offsets[-1]), bool))
        return replace(federation, train=train, test=test)

    def _part(self, part: Part, chosen: np.ndarray) -> Part:
        """A part with the chosen samples changed; other parts may share its tensors."""
        rows = np.arange(len(chosen)) if part.rows is None else part.rows
        at = torch.from_numpy(rows[chosen])
        if self.what == "features":
            x = part.x.clone()
            x[at] = -x[at]
            return replace(part, x=x)
        y = part.y.clone()
        y[at] = _other(y[at], part.y)
        return replace(part, y=y)


def _other(labels: Tensor, everybody: Tensor) -> Tensor:
    """Labels after the change; the last of an odd number of classes stays, and so does padding."""
    if labels.is_floating_point():
        return -labels
    classes = int(everybody.max()) + 1
    swapped = labels ^ 1
    return torch.where((labels >= 0) & (swapped < classes), swapped, labels)


def _sudden(since: Floats) -> Floats:
    return (since >= 0).astype(float)


def _gradual(since: Floats) -> Floats:
    return np.clip(since / _SPAN, 0.0, 1.0)


def _back_and_forth(since: Floats) -> Floats:
    return ((since >= 0) & (since // _SPAN % 2 == 0)).astype(float)


_COURSES: Mapping[str, Callable[[Floats], Floats]] = {
    "sudden": _sudden,
    "gradual": _gradual,
    "back and forth": _back_and_forth,
}
