"""The course of a run: all that decides how it goes and what it gives, and a name for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headwater.errors import InputError
from headwater.learning.checkpoint import Stored
from headwater.learning.identity import UnidentifiedError, digest, versions
from headwater.learning.optimisers import ADD_MOVES, Server
from headwater.learning.problem import Problem
from headwater.learning.projection import Projection
from headwater.learning.testing import Tests
from headwater.ledger.ledger import Ledger
from headwater.ledger.orders import LocalWork
from headwater.ledger.rounds import Round
from headwater.ledger.strategies import Strategy


@dataclass(frozen=True)
class Course:
    """Everything that decides a run.

    Attributes:
        problem: model, loss, samples and the seed of dropout.
        strategy: how much each sample counts; an ``Optimal()`` with the ratio that was estimated.
        ledger: who holds what, with what weight.
        local_work: local steps, batches, participation.
        rates: the learning rate of each round.
        projection: Θ, or None.
        tests: on what the model is tested, and when.
        version: a word for what cannot be identified; None: refuse it.
        prequential: are samples tested as they arrive?
        server: what the server does with the clients' moves.
    """

    problem: Problem
    strategy: Strategy
    ledger: Ledger
    local_work: LocalWork
    rates: Sequence[float]
    projection: Projection | None
    tests: Tests
    version: str | None = None
    prequential: bool = False
    server: Server = ADD_MOVES

    @property
    def rounds(self) -> int:
        """T."""
        return self.ledger.holdings.rounds

    @cached_property
    def identity(self) -> dict[str, str]:
        """Each thing that decides the run, in words that an error can use, and its name."""
        problem, tests = self.problem, self.tests
        # The engine is not among them: all engines give the same numbers, up to rounding. Of a
        # schedule its values count, whatever function gave them.
        decisive: dict[str, tuple[object, ...]] = {
            "the streams or the strategy": (self.ledger.holdings, self._weights_digest()),
            "local_steps, batch_size, participation or seed": (self.local_work,),
            "the learning rates": (self.rates,),
            "the samples": (problem.x, problem.y, problem.rows),
            "the model": (problem.model,),
            "the loss": (problem.loss,),
            "the projection": (self.projection,),
            "the optimisers": (problem.local, self.server),
            "the test samples, metrics or test_every": (
                tests.part,
                tests.metrics,
                tests.every,
                self.prequential,
            ),
            "the versions of headwater, torch or Python": (versions(),),
        }
        return {name: self._named(name, things) for name, things in decisive.items()}

    def _weights_digest(self) -> str:
        """Of λ of every sample: once if it never changes, else round by round."""
        if not callable(self.ledger.weights):
            return digest(self.ledger.weights)
        return digest([digest(self.ledger.weights_at(t + 1)) for t in range(self.rounds)])

    def _named(self, name: str, things: tuple[object, ...]) -> str:
        try:
            return digest(*things, unknown=self.version)
        except UnidentifiedError as error:
            raise UnidentifiedError(
                f"checkpoint: it must be known what the run depends on, but in {name}, {error}; "
                'give version="1" to stand for it, and another version when it changes'
            ) from None


def check_same(stored: Stored, planned: Course, course: Course) -> None:
    """Is what a folder holds the beginning of this course?

    Args:
        stored: what the folder holds.
        planned: this course with as many rounds as the stored run was to have.
        course: this course.
    """
    # As the stored run was planned: settings that follow from the number of rounds, such as how
    # often it is tested, are then those of its own length.
    identity = planned.identity
    others = [name for name, value in identity.items() if stored.identity.get(name) != value]
    if others:
        raise InputError(
            f"the checkpoint folder holds a run with other settings: {'; '.join(others)}; "
            "choose another folder, or delete that one"
        )
    done = stored.state.round
    if done > course.rounds:
        raise InputError(f"rounds: the checkpoint folder holds {done} already; got {course.rounds}")
    for round in range(1, done + 1) if planned.rounds != course.rounds else ():
        if not _alike(planned.ledger.round(round), course.ledger.round(round)):
            raise InputError(
                f"rounds: a run of {planned.rounds} rounds cannot be made one of {course.rounds}, "
                f"as {course.strategy} weighs the samples of round {round} by the length of the "
                "run. Start anew in another folder; or begin a new run with this one's model; or "
                "use a strategy that does not look ahead, such as ByMemory()"
            )


def _alike(one: Round, other: Round) -> bool:
    """The same samples with the same weights, up to rounding."""
    return (
        np.array_equal(one.samples, other.samples)
        and np.array_equal(one.clients, other.clients)
        # Weights that only differ by a common factor, as Historical()'s do, are the same weights.
        and np.allclose(one.shares, other.shares, rtol=1e-12, atol=0.0)
        and np.allclose(one.weights, other.weights, rtol=1e-12, atol=0.0)
    )
