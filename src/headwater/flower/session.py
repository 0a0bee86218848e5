"""One run on Flower: wait for clients, plan, one round after the other, write down.

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
from dataclasses import replace

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, RecordDict
from flwr.serverapp import Grid

from headwater.errors import InputError
from headwater.flower import messages
from headwater.flower.checkpoint import Checkpoint
from headwater.flower.journal import Entry
from headwater.flower.plan import Declared, Live, Plan, foreseeable
from headwater.flower.presence import Presence
from headwater.flower.reports import pooled, reported
from headwater.flower.roster import Roster
from headwater.flower.settings import Settings
from headwater.flower.state import State
from headwater.flower.tally import Tally, Verdict
from headwater.ledger.orders import select
from headwater.ledger.rounds import Round

log = logging.getLogger("headwater.flower")


class QuorumError(InputError):
    """Too few clients for too long."""


class Session:
    """The server's side of a run.

    Args:
        grid: Flower's connection to the nodes.
        arrays: the model as the user gave it; a resumed run takes names and shapes from it.
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
        self.settings, self.store, self.stop = settings, store, stop
        self._like, self._rounds, self._config = arrays, rounds, config
        start = messages.flatten(arrays)
        self.state, roster = store.load() or (State.start(start), Roster())
        self.deadline = settings.deadline or 600.0
        ttl = settings.ttl or self.deadline + 60.0
        size = len(start)
        self.presence = Presence(grid, roster, size, ttl, start.nbytes, settings.ask_again)
        self.plan: Plan | None = None

    @property
    def roster(self) -> Roster:
        """The clients of the run."""
        return self.presence.roster

    @property
    def arrays(self) -> ArrayRecord:
        """θ, the last iterate, as the user's model."""
        return messages.unflatten(self.state.parameters, self._like)

    @property
    def average(self) -> ArrayRecord:
        """θ̄, the q-weighted average, as the user's model."""
        return messages.unflatten(self.state.average, self._like)

    def open(self) -> None:
        """Wait for clients, then plan; a resumed run waits for those that it had."""
        expected = max(self.settings.min_clients, len(self.roster))
        began = time.monotonic()
        while not self.stop.is_set() and len(self.presence.clients) < expected:
            if time.monotonic() > began + self.deadline:
                if len(self.presence.clients) >= self.settings.min_clients:
                    break
                self._check_patience(began, "clients to begin with")
            for _ in self.presence.answers():
                pass  # only descriptions are expected
            self.presence.pause()
        if self.stop.is_set():
            return
        if self.state.round == 0:
            self.presence.roster = self.roster.settled()
            self.store.save(self.state, self.roster)  # numbers and the run's name are fixed now
        self.plan = self._make_plan()

    def _make_plan(self) -> Plan:
        clients = [self.roster[m] for m in range(len(self.roster))]
        s = self.settings
        if self._rounds is not None and foreseeable(clients, s.seed):
            return Declared.of(self.roster, s.strategy, self._rounds, s.local_work)
        return Live(s.strategy, self._rounds, s.local_work)

    # ------------------------------------------------------------------ a round

    def prepare(self, number: int) -> Tally:
        """The round's plan, with nothing counted yet."""
        assert self.plan is not None
        plan = self.plan.round(number, self.roster, self.presence.nodes)
        s = self.settings
        if s.participation is not None:
            plan = select(plan, s.participation, s.seed)
        return Tally(plan, self.roster, self.state.parameters, s.norm_limit, s.catch_up)

    def round(self, number: int) -> Entry | None:
        """Ask, add up, move, write down; None: a signal came first, and nothing happened."""
        began = time.monotonic()
        tally = self.prepare(number)
        self._gather(tally, began)
        if self.stop.is_set():
            return None
        return self.finish(tally, began)

    def _gather(self, tally: Tally, began: float) -> None:
        """Until all have answered, or the deadline has passed and the quorum is there."""
        asked: dict[int, float] = {}
        arrays = self.arrays
        while tally.waiting and not self.stop.is_set():
            self._ask(tally, asked, arrays)
            for tag, reply in self.presence.answers():
                if tag.kind == messages.TRAIN and tally.take(tag.number, reply) is Verdict.AGAIN:
                    # Not at once: what just died needs a moment to come back.
                    asked[tag.number] = time.monotonic() - self.settings.ask_again + 1.0
            if time.monotonic() > began + self.deadline:
                if tally.reached(self.settings.quorum):
                    break
                self._check_patience(began, f"a quorum in round {tally.plan.number}")
            if tally.waiting:
                self.presence.pause()
        self.presence.close()

    def _ask(self, tally: Tally, asked: dict[int, float], arrays: ArrayRecord) -> None:
        """Ask whoever was not asked yet, or long ago; who is not connected is waited for."""
        now, again = time.monotonic(), self.settings.ask_again
        due = [m for m in sorted(tally.waiting) if now - asked.get(m, -np.inf) > again]
        connected = self.presence.nodes if due else set()
        for m in due:
            if self.roster[m].node in connected:
                asked[m] = now
                content = self.request(tally.plan, tally.place[m], arrays)
                self.presence.post(messages.TRAIN, m, content, tally.plan.number)

    def request(self, plan: Round, place: int, arrays: ArrayRecord) -> RecordDict:
        """What a client is asked to do in a round."""
        assert self.plan is not None
        s = self.settings
        header = {
            "run": self.store.run,
            "round": plan.number,
            "client": int(plan.clients[place]),
            "seed": s.seed,
            "local_steps": s.local_steps,
            "batch_size": s.batch_size,
            "learning_rate": s.rate(plan.number),
            "norm_limit": s.norm_limit,
        }
        positions, weights = self.plan.samples(plan, place) or (None, None)
        return messages.request(header, arrays, positions, weights, self._config)

    def finish(self, tally: Tally, began: float) -> Entry:
        """Move by what came, and put the round on the disk."""
        assert self.plan is not None
        tally.close()
        if not tally.reached(self.settings.quorum):
            raise QuorumError(
                f"round {tally.plan.number}: updates with {tally.planned:.3g} of the shares could "
                f"be used, quorum={self.settings.quorum:g}; refused: {tally.refused}"
            )
        share = self.plan.round_share(tally.plan.number) * sum(tally.counted.values())
        self.state = self.state.after(tally.moves.total, share, self.settings.projection)
        for m in tally.place:
            report = tally.reports.get(m)
            self.roster.update(m, **reported(self.roster[m], report))
        entry = self._entry(tally, share, time.monotonic() - began)
        if isinstance(self.plan, Live):
            self.plan.seconds = entry.seconds
        self.store.save(self.state, self.roster, entry)
        return entry

    def _entry(self, tally: Tally, share: float, seconds: float) -> Entry:
        clients = tally.plan.clients.tolist()
        standings = [self.roster[m] for m in clients]
        return Entry(
            round=tally.plan.number,
            time=time.time(),
            seconds=seconds,
            share=share,
            move=float(np.linalg.norm(tally.moves.total)),
            client=clients,
            planned=tally.plan.shares.tolist(),
            counted=[tally.counted.get(m, 0.0) for m in clients],
            held=[client.held for client in standings],
            arrived=[client.arrived for client in standings],
            drawn=[int(tally.reports.get(m, {}).get("samples", 0)) for m in clients],
            refused={str(m): why for m, why in tally.refused.items()},
            # What was there from the start was never predicted by a model that had learned.
            metrics=pooled([c.prequential for c in standings if not c.historical]),
        )

    # ------------------------------------------------------------------ tests at the clients

    def evaluate(self, number: int, config: ConfigRecord | None) -> dict[str, float]:
        """What the clients measure on their own test samples, every sample counting alike."""
        began, arrays = time.monotonic(), self.arrays
        header = {"run": self.store.run, "round": number}
        waiting = set(self.presence.clients)
        for m in sorted(waiting):
            content = messages.request(header, arrays, more=config)
            self.presence.post(messages.EVALUATE, m, content, number)
        found = []
        while waiting and not self.stop.is_set() and time.monotonic() < began + self.deadline:
            for tag, reply in self.presence.answers():
                if tag.kind == messages.EVALUATE and tag.number in waiting:
                    waiting.discard(tag.number)
                    found.append({} if reply.has_error() else messages.metrics_of(reply))
            self.presence.pause()
        self.presence.close()
        numbers = pooled(found, "")
        self.store.note_test(number, numbers)
        return numbers

    def replace_parameters(self, arrays: ArrayRecord) -> None:
        """Go on from other parameters, as a wrapper of the strategy may want."""
        self.state = replace(self.state, parameters=messages.flatten(arrays))

    def _check_patience(self, began: float, what: str) -> None:
        """Too few for too long is an error; the checkpoint stays."""
        waited, patience = time.monotonic() - began, self.settings.patience
        if patience is not None and waited > patience:
            raise QuorumError(
                f"{len(self.presence.clients)} clients are connected after {waited:.0f} s, too few "
                f"for {what} (min_clients={self.settings.min_clients}, "
                f"quorum={self.settings.quorum:g}); started again, the run goes on where it was"
            )
