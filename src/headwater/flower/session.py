"""One run on Flower: wait for clients, plan, one round after the other, write down.

What happens to clients that do not deliver is one rule, in four parts:

- **Failed** (its process died, its node is restarting): it is asked again, with the same words,
  until the deadline. Nodes answer the same question with the same reply, so this changes nothing.
- **Absent** (no valid update by the deadline): its share is *not* given to the others; the round
  moves by what came, Σ_{m came} p_m(t) (θ_m − θ), and counts in the average with what came. A
  client that answered in a fraction a of its rounds so far counts p_m(t)/a when it comes (at most
  ``catch_up`` times its share). If a client's absences do not depend on what it would have sent and
  a is its true frequency, the expected move is Σ_m p_m(t) (θ_m − θ): nobody's importance is
  distorted. Sharing out the absent clients' shares, as FedAvg does, is biased even when all are
  absent equally often: a client with a large share loses.
- **Refused** (an update that cannot be): the same, but it is not made up for later. Why it was
  refused depends on what was sent, and who sends what is refused is not to gain by it.
- **Left** (Flower no longer lists its node): the plan of the next round is made without it, unless
  the arrivals were declared; then it is absent.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, RecordDict
from flwr.serverapp import Grid

from headwater.flower import messages
from headwater.flower.checkpoint import Checkpoint
from headwater.flower.client_tests import ask_for_tests
from headwater.flower.gathering import Gathering
from headwater.flower.importance import NobodyCountsError, check_given, looks_ahead
from headwater.flower.journal import Entry
from headwater.flower.patience import Patience, QuorumError
from headwater.flower.plan import Declared, Live, Plan, foreseeable
from headwater.flower.presence import Presence
from headwater.flower.reports import RECENT, pooled, reported
from headwater.flower.roster import Roster
from headwater.flower.settings import Settings
from headwater.flower.state import State
from headwater.flower.tally import Tally
from headwater.ledger.orders import select
from headwater.ledger.rounds import Round

log = logging.getLogger("headwater.flower")


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
        ttl = settings.ttl or settings.longest_round + 60.0
        size = len(start)
        self.presence = Presence(grid, roster, size, ttl, start.nbytes, settings.ask_again)
        self.presence.round = self.state.round
        self._patience = Patience(self.presence, settings, stop)
        self._gathering = Gathering(self.presence, settings, self._patience, stop)
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
        least = self.settings.min_clients
        expected = max(least, len(self.roster))

        def enough(waited: float) -> bool:
            late = waited > self.settings.longest_round
            return len(self.presence.clients) >= (least if late else expected)

        self._patience.wait(enough, "clients to begin with")
        if self.stop.is_set():
            return
        if self.state.round == 0:
            check_given(self.settings.strategy, len(self.roster))
            self.presence.roster = self.roster.settled()
        self.plan = self._make_plan()
        if self.state.round == 0:
            declared = isinstance(self.plan, Declared)
            self.store.looks_ahead = declared or looks_ahead(self.settings.strategy)
            self.store.save(self.state, self.roster)  # numbers and the run's name are fixed now

    def _make_plan(self) -> Plan:
        """The plan with which the run began, also when it goes on: by the clients of round 1."""
        clients = [client for client in self.roster if client.joined == 1]
        s = self.settings
        if self._rounds is not None and foreseeable(clients, s.seed):
            return Declared.of(clients, s.strategy, self._rounds, s.local_work)
        return Live(s.strategy, self._rounds, s.local_work)

    def rounds(self) -> Iterator[Entry]:
        """Round after round, until the last or a signal."""
        last = self._rounds
        while not self.stop.is_set() and (last is None or self.state.round < last):
            entry = self.round(self.state.round + 1)
            if entry is None:
                return
            came, planned = sum(share > 0 for share in entry.counted), len(entry.client)
            text = "round %d: %d of %d clients, %.1f s, %s"
            log.info(text, entry.round, came, planned, entry.seconds, entry.metrics)
            yield entry

    # ------------------------------------------------------------------ a round

    def round(self, number: int) -> Entry | None:
        """Ask, add up, move, write down; None: a signal came first, and nothing happened."""
        tally = self.prepare(number)
        if tally is None:
            return None
        began = time.monotonic()  # waiting for somebody who counts takes nobody's time to answer
        arrays = self.arrays
        self._gathering.fill(tally, lambda place: self.request(tally.plan, place, arrays), began)
        if self.stop.is_set():
            return None
        return self.finish(tally, began)

    def prepare(self, number: int) -> Tally | None:
        """The round's plan, with nothing counted yet; None: a signal came before it."""
        self.presence.round = number
        plan = self._planned(number)
        if plan is None:
            return None
        s = self.settings
        if s.participation is not None:
            plan = select(plan, s.participation, s.seed)
        return Tally(plan, self.roster, self.state.parameters, s.norm_limit, s.catch_up)

    def _planned(self, number: int) -> Round | None:
        """The plan of a round, as soon as somebody who counts is there."""
        assert self.plan is not None
        planner, found, said = self.plan, None, ""

        def somebody(_: float) -> bool:
            nonlocal found, said
            try:
                found = planner.round(number, self.roster, self.presence.nodes)
            except NobodyCountsError as error:
                if str(error) != said:
                    log.warning("round %d waits: %s", number, error)
                said = str(error)
            return found is not None

        self._patience.wait(somebody, f"round {number}: nobody who counts holds a sample")
        return found

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
        number = tally.plan.number
        if not tally.reached(self.settings.quorum):
            raise QuorumError(
                f"round {number}: updates with {tally.planned:.3g} of the shares could "
                f"be used, quorum={self.settings.quorum:g}; refused: {tally.refused}"
            )
        share = self.plan.round_share(number) * sum(tally.counted.values())
        self.state = self.state.after(tally.moves.total, share, self.settings.projection)
        for m in tally.reports.keys() | tally.absent:
            self.roster.update(m, **reported(self.roster[m], tally.reports.get(m), number))
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
            metrics=pooled(
                [c.prequential for c in standings if not c.historical], RECENT, "prequential-"
            ),
        )

    def evaluate(self, number: int, config: ConfigRecord | None) -> dict[str, float]:
        """What the clients measure on their own test samples, every sample counting alike."""
        content = messages.request(
            {"run": self.store.run, "round": number}, self.arrays, more=config
        )
        seconds = self.settings.longest_round
        found = ask_for_tests(self.presence, content, number, seconds, self.stop)
        numbers = pooled(found, ("loss", "metric"))
        self.store.note_test(number, numbers)
        return numbers

    def replace_parameters(self, arrays: ArrayRecord) -> None:
        """Go on from other parameters, as a wrapper of the strategy may want."""
        self.state = replace(self.state, parameters=messages.flatten(arrays))
