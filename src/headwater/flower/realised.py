"""The ledger of a real run, read from its journal: the simulator's own kind of ledger.

A client's reports of arrived samples are an arrival process like any other; its memory rule turns
them into who held what when; and the shares with which its updates counted are the weights. So
effective samples, variability and importance of a real run are read like a simulated one's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwater.errors import InputError
from headwater.files import UNREADABLE
from headwater.flower.journal import Entry, Journal
from headwater.flower.plan import memory
from headwater.flower.roster import Roster, Standing
from headwater.ledger.arrivals import FOREVER, Rounds
from headwater.ledger.holdings import Holdings
from headwater.ledger.ledger import Ledger
from headwater.ledger.memory import Keep, Memory
from headwater.ledger.samples import Samples
from headwater.ledger.strategies import Given
from headwater.ledger.unrolling import unroll
from headwater.randomness import Floats

_MOST = 50_000_000  # samples of a ledger: some gigabytes


@dataclass(frozen=True)
class Observed:
    """Arrivals as a client reported them: ``arrived[t - 1]`` samples by the end of round t."""

    arrived: tuple[int, ...]

    def rounds(self, samples: Samples) -> Rounds:
        """The first round by which more than that many had arrived."""
        found = 1 + np.searchsorted(self.arrived, samples.position, side="right")
        return np.where(samples.position < self.arrived[-1], found, FOREVER)

    def largest_batch(self, count: int) -> int:  # noqa: ARG002 (the protocol's signature)
        """Not known beforehand: real streams are not asked whether a batch fits."""
        return 0


def read_ledger(folder: Path | str) -> Ledger:
    """The ledger of a run on Flower, from its checkpoint folder."""
    return Happened.read(Path(folder)).ledger()


@dataclass(frozen=True)
class Happened:
    """What a run has written down.

    Attributes:
        roster: its clients.
        seed: of the run.
        entries: its rounds.
    """

    roster: Roster
    seed: int
    entries: Sequence[Entry]

    @classmethod
    def read(cls, folder: Path) -> Happened:
        """From the checkpoint folder."""
        if not (folder / "state.npz").exists():
            raise InputError(f"{folder}: no run is written down there")
        roster, seed, done = read_state(folder)
        # A server that was killed may have written one line too many.
        entries = Journal(folder / "rounds.jsonl").read()[:done]
        if not entries:
            raise InputError(f"{folder}: no rounds are written down there")
        return cls(roster, seed, entries)

    def ledger(self) -> Ledger:
        """The run's ledger; as its shares change with the rounds, it costs rounds × samples.

        Within a client all samples that it holds weigh alike. Where single samples had weights of
        their own (declared arrivals, and a strategy that weighs samples of one client differently),
        the clients' shares are exact and the samples' are the client's mean.
        """
        arrived = arrivals_by_round(self.entries, self.roster)
        if (total := int(arrived[-1].sum())) > _MOST:
            raise InputError(
                f"clients claim {total:,} samples; a ledger can have {_MOST:,} at most"
            )
        holdings = unroll(
            np.maximum(arrived[-1], 1),
            [Observed(tuple(column.tolist())) for column in arrived.T],
            [_memory(client) for client in self.roster],
            len(self.entries),
            self.seed,
        )
        return Ledger.weigh(holdings, Given(_Weights(self.entries, holdings)))


@dataclass(frozen=True)
class _Weights:
    """λ of every sample in a round: its client's share, dealt out to what the client held."""

    entries: Sequence[Entry]
    holdings: Holdings

    def __call__(self, round: int) -> list[float]:
        entry = self.entries[round - 1]
        shares = np.zeros(self.holdings.clients)
        total = sum(entry.counted)
        shares[entry.client] = np.array(entry.counted) * (entry.share / total)
        held = self.holdings.per_client(self.holdings.held(round))
        each: Floats = shares / np.maximum(held, 1)
        return each[self.holdings.client].tolist()


def read_state(folder: Path) -> tuple[Roster, int, int]:
    """The clients of the run, its seed, and how many rounds are done."""
    file = folder / "state.npz"
    try:
        with np.load(file, allow_pickle=False) as saved:
            about = json.loads(str(saved["about"]))
        return Roster.from_json(about["roster"]), int(about["seed"]), int(about["round"])
    except UNREADABLE as error:
        raise InputError(f"{file}: no state of a run can be read there ({error})") from error


def arrivals_by_round(entries: Sequence[Entry], roster: Roster) -> Rounds:
    """Samples that had arrived by each round; between two reports the count stays.

    A line of the journal has the clients that were planned. The others had their samples, too: what
    a client held when it joined was there in its first round, whenever it was first asked.
    """
    table = np.zeros((len(entries), len(roster)), np.int64)
    for m, client in enumerate(roster):
        table[client.joined - 1 :, m] = client.first_arrived
    for row, entry in zip(table, entries, strict=True):
        row[entry.client] = entry.arrived
    return np.maximum.accumulate(table, axis=0)


def _memory(client: Standing) -> Memory:
    try:
        return memory(client)
    except InputError:  # a rule of the user's own: what it kept is not known, only how many
        return Keep()
