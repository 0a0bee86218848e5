"""One run on Flower: who is there, a round after the other, what is written down.

What happens to clients that do not deliver is one rule, in three parts:

- **Failed** (its process died, its node is restarting): it is asked again, with the same words,
  until the deadline. Nodes answer the same question with the same reply, so this changes nothing.
- **Absent** (no valid update by the deadline): its share is *not* given to the others; the round
  moves by what came, Σ_{m came} p_m(t) (θ_m − θ), and counts in the average with what came. A
  client that answered in a fraction a of its rounds so far counts p_m(t)/a when it comes (at most
  ``catch_up`` times its share). If a client's absences do not depend on what it would have sent and
  a is its true frequency, the expected move is Σ_m p_m(t) (θ_m − θ): nobody's importance is
  distorted. Sharing out the absent clients' shares, as FedAvg does, is biased even when all are
  absent equally often: a client with a large share loses.
- **Left** (Flower no longer lists its node): the plan of the next round is made without it, unless
  the arrivals were declared; then it is absent.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from headwater.errors import InputError
from headwater.flower import messages
from headwater.flower.checkpoint import Checkpoint
from headwater.flower.exchange import Exchange
from headwater.flower.journal import Entry
from headwater.flower.plan import Declared, Live, Plan, all_declared
from headwater.flower.roster import Roster, Standing
from headwater.flower.settings import Settings
from headwater.flower.state import Moves, RefusedUpdate, State
from headwater.ledger.ledger import Round
from headwater.ledger.orders import select

log = logging.getLogger("headwater.flower")
# Flower's errors after which the same question may find an answer: message or reply lost, node
# gone, ClientApp crashed; and ours for a node that is restarting.
_TRANSIENT = (3, 4, 5, 8, messages.AWAY)


class QuorumError(InputError):
    """Too few clients for too long."""


@dataclass(frozen=True)
class Tag:
    """What a letter was about: a client's update or numbers, or a node's description."""

    kind: str
    number: int


class Session:
    """The server's side of a run.

    Args:
        grid: Flower's connection to the nodes.
        arrays: the model as the user gave it, for names and shapes.
        settings: how the run goes.
        rounds: the last round; None: it has none.
        store: where the run is kept.
        stop: set by a signal; a round that is under way is then given up.
        config: settings of the user's own that are sent along.
    """

    def __init__(
        self,
        grid: Grid,
        arrays: ArrayRecord,
        settings: Settings,
        rounds: int | None,
        store: Checkpoint,
        stop: threading.Event,
        config: ConfigRecord | None = None,
    ) -> None:
        self.settings = settings
        self.arrays = arrays
        self.stop = stop
        self._grid, self._rounds, self._store, self._config = grid, rounds, store, config
        start = messages.flatten(arrays)
        self._deadline = settings.deadline or 3600.0
        ttl = settings.ttl or self._deadline + 60.0
        self._exchange: Exchange[Tag] = Exchange(grid, ttl, start.nbytes)
        self._greeted: dict[int, float] = {}  # nodes that were asked who they are, and when
        self.state, self.roster = store.load() or (State.start(start), Roster())
        self.plan: Plan | None = None

    # ------------------------------------------------------------------ who is there

    def open(self) -> None:
        """Wait for clients, then plan; a resumed run waits for those that it had."""
        expected = max(self.settings.min_clients, len(self.roster))
        deadline = time.monotonic() + self._deadline
        while not self.stop.is_set() and len(self._connected_clients()) < expected:
            if time.monotonic() > deadline:
                if len(self._connected_clients()) >= self.settings.min_clients:
                    break
                deadline = self._lose_patience(deadline, "clients to start with")
            self._listen()
            self._exchange.pause()
        if self.stop.is_set():
            return
        self.plan = self._make_plan()
        if self.state.round == 0:
            self._store.save(self.state, self.roster)  # numbers and the run's name are fixed now

    def _make_plan(self) -> Plan:
        clients = [self.roster[m] for m in range(len(self.roster))]
        if self._rounds is not None and all_declared(clients):
            s = self.settings
            return Declared.of(self.roster, s.strategy, self._rounds, s.seed)
        return Live(self.settings.strategy, self._rounds)

    def _connected(self) -> set[int]:
        return set(self._grid.get_node_ids())

    def _connected_clients(self) -> list[int]:
        nodes = self._connected()
        return [m for m in range(len(self.roster)) if self.roster[m].node in nodes]

    def _listen(self) -> list[tuple[Tag, Message]]:
        """Greet nodes that nobody knows; take in descriptions, hand back all other answers."""
        connected = self._connected()
        now = time.monotonic()
        for node in connected - self.roster.nodes:
            if now - self._greeted.get(node, -np.inf) > self.settings.ask_again:
                self._greeted[node] = now
                content = messages.request({"do": "describe"})
                self._exchange.post(Tag("describe", node), node, messages.DESCRIBE, content)
        others = []
        for tag, reply in self._exchange.answers():
            if tag.kind == "describe":
                self._meet(tag.number, reply, connected)
            else:
                others.append((tag, reply))
        return others

    def _meet(self, node: int, reply: Message, connected: set[int]) -> None:
        """Take in one node's description."""
        if reply.has_error():
            log.warning("node %d does not say who it is: %s", node, reply.error.reason)
            return
        try:
            header = messages.header_of(reply.content)
            size = header.get("parameters")
            if size not in (None, len(self.state.parameters)):
                raise InputError(
                    f"node {node} ({header.get('client-id')}): its model has {size} parameters, "
                    f"the server's {len(self.state.parameters)}; give both the same model"
                )
            for name in self.roster.welcome({node: header}, connected):
                log.info("client %s joins as number %s", name, self.roster.number(name))
        except (InputError, ValueError) as error:
            log.warning("%s", error)

    # ------------------------------------------------------------------ a round

    def round(self, number: int) -> Entry | None:
        """Ask, add up, move, write down; None: a signal came first, and nothing happened."""
        assert self.plan is not None
        began = time.monotonic()
        plan = self.plan.round(number, self.roster, self._connected())
        if self.settings.participation is not None:
            plan = select(plan, self.settings.participation, self.settings.seed)
        duty = _Duty(self, plan, number)
        duty.run(began)
        if self.stop.is_set():
            return None
        came = sum(duty.counted.values())
        share = self.plan.round_share(number) * came
        self.state = self.state.after(duty.moves.total, share, self.settings.projection)
        self._note_answers(plan, duty)
        if isinstance(self.plan, Live):
            self.plan.seconds = time.monotonic() - began
        entry = self._entry(number, began, share, plan, duty)
        self._store.save(self.state, self.roster, entry)
        return entry

    def request(self, plan: Round, place: int, number: int, arrays: ArrayRecord) -> RecordDict:
        """What a client is asked to do in a round."""
        s = self.settings
        assert self.plan is not None
        header = {
            "do": "train",
            "run": self._store.run,
            "round": number,
            "client": int(plan.clients[place]),
            "seed": s.seed,
            "local_steps": s.local_steps,
            "batch_size": s.batch_size,
            "learning_rate": s.rate(number),
            "norm_limit": s.norm_limit,
        }
        positions, weights = self.plan.samples(plan, place) or (None, None)
        return messages.request(header, arrays, positions, weights, self._config)

    def post(self, tag: Tag, node: int, kind: str, content: RecordDict, number: int) -> None:
        """Send a letter."""
        self._exchange.post(tag, node, kind, content, str(number))

    def answers(self) -> Iterator[tuple[Tag, Message]]:
        """Answers to letters of the round, as they come."""
        yield from self._listen()

    def pause(self) -> None:
        """Wait a moment for more."""
        self._exchange.pause()

    def end_of_round(self) -> None:
        """Whoever answers from now on is too late."""
        self._exchange.forget()
        self._greeted.clear()

    @property
    def deadline(self) -> float:
        """Seconds that a round may take once its quorum is there."""
        return self._deadline

    def lose_patience(self, since: float, what: str) -> float:
        """Another deadline, unless too few came for too long."""
        return self._lose_patience(since, what)

    def _lose_patience(self, deadline: float, what: str) -> float:
        waited = time.monotonic() - deadline + self._deadline
        if self.settings.patience is not None and waited > self.settings.patience:
            raise QuorumError(
                f"{len(self._connected_clients())} clients are connected after {waited:.0f} s: too "
                f"few {what} (min_clients={self.settings.min_clients}, "
                f"quorum={self.settings.quorum:g}); the run goes on from its checkpoint when it is "
                "started again"
            )
        log.warning("still waiting for %s", what)
        return deadline

    # ------------------------------------------------------------------ what is written down

    def _note_answers(self, plan: Round, duty: _Duty) -> None:
        """Keep count of who came when asked, and of what everybody holds now."""
        for m in plan.clients.tolist():
            client = self.roster[m]
            changes: dict[str, object] = {"asked": client.asked + 1}
            report = duty.reports.get(m)
            if m in duty.counted and report is not None:
                changes |= _reported(client, report)
            self.roster.update(m, **changes)

    def _entry(
        self, number: int, began: float, share: float, plan: Round, duty: _Duty
    ) -> Entry:
        clients = plan.clients.tolist()
        standings = [self.roster[m] for m in clients]
        return Entry(
            round=number,
            time=time.time(),
            seconds=time.monotonic() - began,
            share=share,
            move=float(np.linalg.norm(duty.moves.total)),
            client=clients,
            planned=plan.shares.tolist(),
            counted=[duty.counted.get(m, 0.0) for m in clients],
            held=[client.held for client in standings],
            arrived=[client.arrived for client in standings],
            drawn=[int(duty.reports.get(m, {}).get("samples", 0)) for m in clients],
            refused={str(m): why for m, why in duty.refused.items()},
            metrics=pooled(standings),
        )


class _Duty:
    """One round's asking and adding up."""

    def __init__(self, session: Session, plan: Round, number: int) -> None:
        self._session, self._plan, self._number = session, plan, number
        self._arrays = messages.unflatten(session.state.parameters, session.arrays)
        self._place = {int(m): k for k, m in enumerate(plan.clients)}
        self._asked: dict[int, float] = {}  # when each client was last asked
        self._waiting = set(self._place)
        self.moves = Moves(session.state.parameters, session.settings.norm_limit)
        self.counted: dict[int, float] = {}
        self.reports: dict[int, dict[str, float]] = {}
        self.refused: dict[int, str] = {}

    def run(self, began: float) -> None:
        """Until all have answered, or the deadline has passed and the quorum is there."""
        session = self._session
        deadline = began + session.deadline
        while self._waiting and not session.stop.is_set():
            self._ask()
            for tag, reply in session.answers():
                if tag.kind == "train" and tag.number in self._waiting:
                    self._take(tag.number, reply)
            if time.monotonic() > deadline:
                if self._quorum():
                    break
                session.lose_patience(began + session.deadline, f"a quorum in round {self._number}")
            if self._waiting:
                session.pause()
        session.end_of_round()
        for m in self._waiting:
            self.refused[m] = "no answer"
        if not session.stop.is_set() and not self._quorum():
            raise QuorumError(
                f"round {self._number}: all clients answered, but updates with only "
                f"{sum(self.counted.values()):.3g} of the shares could be used; "
                f"quorum={session.settings.quorum:g}. Refused: {self.refused}"
            )

    def _quorum(self) -> bool:
        came = sum(float(self._plan.shares[self._place[m]]) for m in self.counted)
        return bool(self.counted) and came >= self._session.settings.quorum - 1e-9

    def _ask(self) -> None:
        """Ask whoever was not asked yet, or long ago; who is not connected is waited for."""
        session, now = self._session, time.monotonic()
        connected = session._connected()
        for m in sorted(self._waiting):
            node = session.roster[m].node
            overdue = now - self._asked.get(m, -np.inf) > session.settings.ask_again
            if overdue and node in connected:
                self._asked[m] = now
                content = session.request(self._plan, self._place[m], self._number, self._arrays)
                session.post(Tag("train", m), node, messages.TRAIN, content, self._number)

    def _take(self, m: int, reply: Message) -> None:
        """Count an update, ask again, or refuse it for a reason."""
        if reply.has_error() and reply.error.code in _TRANSIENT:
            log.info("client %s: %s; asking again", self._name(m), _short(reply.error.reason))
            # Not at once: what just died needs a moment to come back.
            self._asked[m] = time.monotonic() - self._session.settings.ask_again + 1.0
            return
        self._waiting.discard(m)
        try:
            self._count(m, reply)
        except (RefusedUpdate, InputError, ValueError) as error:
            self.refused[m] = str(error)
            log.warning("client %s is refused in round %d: %s", self._name(m), self._number, error)

    def _count(self, m: int, reply: Message) -> None:
        if reply.has_error():
            raise RefusedUpdate(_short(reply.error.reason))
        report = messages.metrics_of(reply)
        if int(report.get("round", self._number)) != self._number:
            raise RefusedUpdate(f"an update of round {report['round']:.0f}")
        client, settings = self._session.roster[m], self._session.settings
        planned = float(self._plan.shares[self._place[m]])
        share = planned * min(settings.catch_up, 1.0 / client.availability)
        self.moves.add(messages.flatten(messages.arrays_of(reply.content)), share)
        self.counted[m], self.reports[m] = share, report

    def _name(self, m: int) -> str:
        return self._session.roster[m].name


def _reported(client: Standing, report: dict[str, float]) -> dict[str, object]:
    """What a client's reply says of its samples, where it makes sense."""
    arrived = max(client.arrived, int(report.get("arrived", client.arrived)))
    held = int(report.get("held", client.held))
    return {
        "answered": client.answered + 1,
        "rounds_seen": client.rounds_seen + 1,
        "arrived": arrived,
        "held": min(max(held, 0), arrived),
        "rate": max(0.0, report.get("rate", client.rate)),
        "prequential": {
            name: report[f"prequential-{name}"]
            for name in ("count", "loss", "metric")
            if f"prequential-{name}" in report
        },
        "seen": time.time(),
    }


def pooled(standings: list[Standing]) -> dict[str, float]:
    """The clients' prequential numbers, every sample counting alike."""
    reports = [s.prequential for s in standings if s.prequential.get("count")]
    count = sum(report["count"] for report in reports)
    found = {"prequential-count": count} if count else {}
    for name in ("loss", "metric"):
        known = [r for r in reports if name in r]
        if known:
            total = sum(r["count"] for r in known)
            found[f"prequential-{name}"] = sum(r["count"] * r[name] for r in known) / total
    return found


def _short(reason: str | None) -> str:
    """The last line of a reason: Flower's are tracebacks."""
    lines = (reason or "unknown error").strip().splitlines()
    return lines[-1][:300]
