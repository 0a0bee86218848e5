"""What a callback is: told of the beginning, of every round, and of the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import nn

from headwater.errors import InputError
from headwater.learning.algorithm import Record
from headwater.learning.evaluation import Score


@dataclass(frozen=True)
class Beginning:
    """What is known before the first round that will be learned.

    Attributes:
        rounds: T.
        metrics: the names of the metrics, "loss" first.
        history: the records of earlier rounds, if a run goes on from its checkpoint.
        arrivals: the names of what is measured of samples as they arrive; empty unless asked for.
    """

    rounds: int
    metrics: tuple[str, ...]
    history: Sequence[Record]
    arrivals: tuple[str, ...] = ()


@dataclass(frozen=True)
class Moment:
    """A run just after a round.

    Attributes:
        record: what happened in the round.
        score: loss and metrics of each client, if there was a test after this round.
        make_model: makes a copy of the model as it is now; see :attr:`model`.
    """

    record: Record
    score: Score | None
    make_model: Callable[[], nn.Module]

    @cached_property
    def model(self) -> nn.Module:
        """A copy of the model θ(t+1); made when it is first asked for."""
        return self.make_model()


class Callback:
    """Watches a run. Override what you need.

    A run that goes on from a checkpoint tells of its earlier rounds in :meth:`begin`, so that a
    callback with a memory of its own can be where it was.

    Example:
        >>> class Printer(Callback):
        ...     def after_round(self, moment):
        ...         print(moment.record.round, moment.record.clients)
    """

    def begin(self, beginning: Beginning) -> None:
        """Learning begins, or goes on."""

    def after_round(self, moment: Moment) -> bool | None:  # noqa: ARG002 (for those who override)
        """A round is done; True ends the run after it."""
        return None

    @property
    def over(self) -> bool:
        """Is there nothing left to learn, as the run was ended before it was stopped?"""
        return False

    def end(self) -> None:
        """Learning has ended, in whichever way."""


class Callbacks:
    """Several callbacks as one.

    Attributes:
        each: in the order in which they are told.
    """

    def __init__(self, each: Sequence[Callback]) -> None:
        for callback in each:
            if not isinstance(callback, Callback):
                raise InputError(
                    f"callbacks: objects of classes made from hw.Callback; got {callback!r}"
                )
        self.each = list(each)

    def begin(self, beginning: Beginning) -> bool:
        """Tell all of the beginning; is the run at its end before it goes on?"""
        for callback in self.each:
            callback.begin(beginning)
        return any(callback.over for callback in self.each)

    def after_round(self, moment: Moment) -> bool:
        """Tell all of a round; is one of them for ending the run?"""
        # All are told before one may end the run: a log must not miss the last round.
        answers = [callback.after_round(moment) for callback in self.each]
        return any(answer is True for answer in answers)

    def end(self) -> None:
        """Tell all of the end."""
        for callback in self.each:
            callback.end()


class Told(Callback):
    """A function that is called with each round's record."""

    def __init__(self, function: Callable[[Record], object]) -> None:
        self._function = function

    def after_round(self, moment: Moment) -> None:
        """Call it; what it gives back does not matter."""
        self._function(moment.record)
