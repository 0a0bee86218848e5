"""The rounds of a course, each tested on its arrivals; a strategy that listens may forget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headwater.learning.algorithm import Record, State, learn
from headwater.learning.course import Course
from headwater.learning.engines import Engine
from headwater.learning.prequential import Prequential
from headwater.ledger.forgetting import Detector, Forgetting
from headwater.ledger.ledger import Ledger


class Follower:
    """Follows a course from some round on.

    Attributes:
        course: what is followed; with another ledger after each alarm of :class:`Forgetting`.
    """

    def __init__(self, course: Course, history: Sequence[Record]) -> None:
        self.course = course
        self._arrivals: Prequential | None = None
        if course.prequential:
            self._arrivals = Prequential(
                course.problem, course.ledger.holdings, course.tests.metrics
            )
        strategy = course.strategy
        listens = isinstance(strategy, Forgetting)
        self._detector = Detector(strategy.delta) if isinstance(strategy, Forgetting) else None
        # A run that goes on hears again what it has heard: the alarms are where they were.
        heard = [record.round + 1 for record in history if self._alarms(record)] if listens else []
        if heard:
            self._forget(heard)

    @property
    def tested_on_arrival(self) -> tuple[str, ...]:
        """What is measured of samples as they arrive; nothing unless asked for."""
        return self._arrivals.names if self._arrivals else ()

    def rounds(self, state: State, engine: Engine) -> Iterator[tuple[State, Record]]:
        """The rounds after ``state``, one by one, to the last."""
        forgot = True
        while forgot:
            forgot = False
            for now, untested in self._planned(state, engine):
                record = self._arrivals.test(state, untested) if self._arrivals else untested
                state = now
                forgot = self._alarms(record)
                if forgot:
                    self._forget([record.round + 1])
                    state = replace(state, weight=weight_after(self.course.ledger, record.round))
                yield state, record
                if forgot:
                    break

    def _planned(self, state: State, engine: Engine) -> Iterator[tuple[State, Record]]:
        course = self.course
        return learn(
            state,
            course.ledger,
            course.local_work,
            engine,
            course.rates,
            course.projection,
            course.server,
        )

    def _alarms(self, record: Record) -> bool:
        """Do the arrivals of this round say that something has changed?"""
        # After the last round there is nothing left to weigh.
        if self._detector is None or not record.arrived or record.round == self.course.rounds:
            return False
        return self._detector.hears(record.prequential["loss"])

    def _forget(self, alarms: Sequence[int]) -> None:
        """Weigh anew what is to come; what was before an alarm stays as it was."""
        strategy = self.course.strategy
        assert isinstance(strategy, Forgetting)
        for alarm in alarms:
            strategy = strategy.after(alarm)
        ledger = Ledger.weigh(self.course.ledger.holdings, strategy)
        self.course = replace(self.course, strategy=strategy, ledger=ledger)


def weight_after(ledger: Ledger, round: int) -> float:
    """Σ q(t) of the rounds so far, added one after the other, as rounds do it."""
    return sum(ledger.round_shares[:round].tolist(), 0.0)


def with_shares(history: Sequence[Record], ledger: Ledger) -> list[Record]:
    """The records with each round's share of the run as the ledger has it now.

    A run that became longer, or that weighs anew, gives every round another share of the whole.
    """
    shares = ledger.round_shares.tolist()
    # Most are what they were, and making a record anew costs as much as some rounds do.
    return [
        record if record.share == (now := shares[record.round - 1]) else replace(record, share=now)
        for record in history
    ]
