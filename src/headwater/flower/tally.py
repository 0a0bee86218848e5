"""A round's updates as they come in: counted once, asked for again, or refused for a reason."""

from __future__ import annotations

import logging
from enum import Enum

from flwr.app import Message

from headwater.errors import InputError
from headwater.flower import messages
from headwater.flower.roster import Roster
from headwater.flower.state import Moves, RefusedUpdate, Vector
from headwater.ledger.rounds import Round

log = logging.getLogger("headwater.flower")
# Flower's errors after which the same question may find an answer: message or reply lost, node
# gone, ClientApp crashed; and ours for a node that is restarting.
_TRANSIENT = (3, 4, 5, 8, messages.AWAY)


class Verdict(Enum):
    """What became of a reply."""

    COUNTED = "counted"
    REFUSED = "refused"
    AGAIN = "ask again"


class Tally:
    """Σ of what came in a round, and who is still missing.

    Args:
        plan: the round's clients and shares.
        roster: who they are.
        parameters: θ(t).
        norm_limit: the longest move that counts.
        catch_up: how many times its share a client that is often absent may count.
    """

    def __init__(
        self,
        plan: Round,
        roster: Roster,
        parameters: Vector,
        norm_limit: float | None,
        catch_up: float,
    ) -> None:
        self.plan = plan
        self.moves = Moves(parameters, norm_limit)
        self.place = {int(m): k for k, m in enumerate(plan.clients)}
        self.waiting = set(self.place)
        self.counted: dict[int, float] = {}
        self.reports: dict[int, dict[str, float]] = {}
        self.refused: dict[int, str] = {}
        self.absent: set[int] = set()
        self._roster, self._parameters, self._catch_up = roster, parameters, catch_up

    @property
    def planned(self) -> float:
        """The planned shares of those who came."""
        return sum(float(self.plan.shares[self.place[m]]) for m in self.counted)

    def reached(self, quorum: float) -> bool:
        """Did enough come?"""
        return bool(self.counted) and self.planned >= quorum - 1e-9

    def take(self, m: int, reply: Message) -> Verdict:
        """Judge a reply; a client that has answered already is not counted twice."""
        if m not in self.waiting:
            return Verdict.REFUSED
        if reply.has_error() and reply.error.code in _TRANSIENT:
            name = self._roster[m].name
            log.info("client %s: %s; asking again", name, _short(reply.error.reason))
            return Verdict.AGAIN
        self.waiting.discard(m)
        try:
            self._count(m, reply)
        except (RefusedUpdate, InputError, ValueError) as error:
            self.refused[m] = str(error)
            log.warning("client %s is refused: %s", self._roster[m].name, error)
            return Verdict.REFUSED
        return Verdict.COUNTED

    def close(self) -> None:
        """Whoever did not answer is absent."""
        self.absent = set(self.waiting)
        for m in sorted(self.waiting):
            self.refused[m] = "no answer"
            log.warning("client %s is absent in round %d", self._roster[m].name, self.plan.number)
        self.waiting.clear()

    def _count(self, m: int, reply: Message) -> None:
        if reply.has_error():
            raise RefusedUpdate(_short(reply.error.reason))
        report = messages.metrics_of(reply)
        if report.get("round", self.plan.number) != self.plan.number:
            raise RefusedUpdate(f"an update of round {report['round']:.0f}")
        planned = float(self.plan.shares[self.place[m]])
        share = planned * min(self._catch_up, 1.0 / self._roster[m].availability)
        self.moves.add(messages.update_of(reply.content, self._parameters), share)
        self.counted[m], self.reports[m] = share, report


def _short(reason: str | None) -> str:
    """The last line of a reason: Flower's are tracebacks."""
    lines = (reason or "unknown error").strip().splitlines()
    return lines[-1][:300]
