"""Dealing a data set's rows to clients: by label, by coarse and fine label, or as they are.

A partition names rows and copies nothing. It depends on the seed and the labels only: every draw
comes from a PCG64 generator keyed by seed and purpose. Within a client the rows are shuffled, so
that a client that takes them one after the other sees an i.i.d. stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError

Rows = NDArray[np.int64]
Integers = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Partition:
    """Client m's rows are ``rows[offsets[m]:offsets[m + 1]]``; no row is given twice.

    >>> hands = Partition(np.array([4, 2, 7]), np.array([0, 1, 3]))
    >>> hands.client(1), hands.sizes, len(hands)
    (array([2, 7]), array([1, 2]), 2)
    """

    rows: Rows
    offsets: Rows

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Rows:
        """How many rows each client has."""
        return np.diff(self.offsets)

    def client(self, number: int) -> Rows:
        """The rows of one client, in the order in which they come."""
        return self.rows[self.offsets[number] : self.offsets[number + 1]]

    def within(self, rows: Rows) -> Partition:
        """The partition of ``rows`` that this partition of ``range(len(rows))`` stands for."""
        return Partition(rows[self.rows], self.offsets)

    def join(self, other: Partition) -> Partition:
        """The clients of both, those of ``other`` last."""
        offsets = np.concatenate([self.offsets, self.offsets[-1] + other.offsets[1:]])
        return Partition(np.concatenate([self.rows, other.rows]), offsets)

    def carve(self, fraction: float) -> tuple[Partition, Partition]:
        """Training and validation part: of n rows the last ⌊fraction · n⌋ are for validation.

        >>> train, validation = Partition(np.arange(7), np.array([0, 1, 7])).carve(0.4)
        >>> train.rows, validation.rows, validation.sizes
        (array([0, 1, 2, 3, 4]), array([5, 6]), array([0, 2]))
        """
        _require(0 <= fraction < 1, "validation fraction", fraction, "at least 0 and below 1")
        kept = self.sizes - np.floor(fraction * self.sizes).astype(np.int64)
        # Each row's place within its client, for all clients at once.
        place = np.arange(len(self.rows)) - np.repeat(self.offsets[:-1], self.sizes)
        trains = place < np.repeat(kept, self.sizes)
        return (
            Partition(self.rows[trains], _offsets(kept)),
            Partition(self.rows[~trains], _offsets(self.sizes - kept)),
        )


def dirichlet(
    labels: Integers, clients: int, concentration: float, seed: int, group: str = ""
) -> Partition:
    """Deal every label's samples in shares from a symmetric Dirichlet distribution.

    As in Wang et al. 2020, which the paper follows with concentration 0.4. A label's n samples are
    cut at the rounded cumulative shares. A client who is left without any takes one from the client
    who has most then.

    Args:
        labels: The label of each row.
        clients: How many clients there are; at most as many as rows.
        concentration: The Dirichlet parameter: small ones make clients unlike each other.
        seed: Number that determines the partition.
        group: Name of a group of clients; different groups draw independently.

    >>> dirichlet(np.repeat([0, 1], 50), 3, 0.4, seed=1).sizes.sum()
    np.int64(100)
    """
    _require(
        1 <= clients <= len(labels),
        "clients",
        clients,
        f"from 1 to the number of rows, {len(labels)}",
    )
    _require(concentration > 0, "concentration", concentration, "above 0")
    draw = generator(seed, "dirichlet", group)
    counts = np.unique_counts(labels).counts
    shares = draw.dirichlet(np.full(clients, concentration), len(counts))
    # Rounded cumulative shares rather than rounded shares: every sample goes to somebody, once.
    cuts = np.rint(np.cumsum(shares, axis=1) * counts[:, None]).astype(np.int64)
    cuts[:, -1] = counts  # whatever the rounding of the sum
    hands = np.diff(cuts, axis=1, prepend=0)
    # Rows by label, within a label shuffled (a stable sort keeps the shuffle): the first hand of a
    # label goes to client 0, the next to client 1, and so on.
    order = draw.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    owner = np.empty(len(labels), np.int64)
    owner[order] = np.repeat(np.tile(np.arange(clients), len(counts)), hands.ravel())
    return by_client(_nobody_empty(owner, clients), clients, seed, group)


def _nobody_empty(owner: Rows, clients: int) -> Rows:
    """Owners such that everybody has a row; small concentrations leave some without any."""
    sizes = np.bincount(owner, minlength=clients)
    for empty in np.flatnonzero(sizes == 0):
        richest = int(np.argmax(sizes))
        owner[np.flatnonzero(owner == richest)[0]] = empty
        sizes[richest], sizes[empty] = sizes[richest] - 1, 1
    return owner


def pachinko(
    coarse: Integers,
    fine: Integers,
    clients: int,
    seed: int,
    alpha: float = 0.1,
    beta: float = 10.0,
    group: str = "",
) -> Partition:
    """Two-stage Pachinko allocation over coarse and fine labels, equally many rows each, ±1.

    As in Reddi et al. 2021 (Adaptive federated optimization, appendix on CIFAR-100, whose
    parameters are the defaults): each client draws a distribution over the coarse labels from
    Dirichlet(alpha), and one over the fine labels under each coarse label from Dirichlet(beta). Its
    samples are drawn one after the other, without replacement, by coarse, then by fine label;
    labels that have run out leave the draw, and the rest is scaled up.

    >>> pachinko(np.repeat([0, 1], 20), np.repeat([0, 1, 2, 3], 10), 3, seed=0).sizes
    array([14, 13, 13])
    """
    _require(
        1 <= clients <= len(fine), "clients", clients, f"from 1 to the number of rows, {len(fine)}"
    )
    _require(alpha > 0 and beta > 0, "alpha, beta", (alpha, beta), "above 0")
    parent, fines = _tree(coarse, fine)
    draw = generator(seed, "pachinko", group)
    order = draw.permutation(len(fine))
    order = order[np.argsort(fines[order], kind="stable")]
    # A label's rows lie side by side in `order`; `heads` says where its next undealt row is.
    stock = np.bincount(fines)
    heads = np.cumsum(stock) - stock
    owner = np.empty(len(fine), np.int64)
    for client in range(clients):
        size = len(fine) // clients + (client < len(fine) % clients)
        first = draw.dirichlet(np.full(parent.max() + 1, alpha))
        second = draw.standard_gamma(beta, len(parent))  # scaled to sum to one wherever it is used
        taken = _drawn(draw, first, second, parent, stock, size)
        dealt = [np.arange(h, h + t) for h, t in zip(heads, taken, strict=True)]
        owner[order[np.concatenate(dealt)]] = client
        stock, heads = stock - taken, heads + taken
    return by_client(owner, clients, seed, group)


def _tree(coarse: Integers, fine: Integers) -> tuple[Rows, Rows]:
    """The coarse label of each fine label, and the rows' fine labels; all counted from 0."""
    coarses = np.unique_inverse(coarse).inverse_indices
    _, first, fines, _ = np.unique_all(fine)
    parent = coarses[first]
    strays = np.flatnonzero(parent[fines] != coarses)
    if len(strays):
        raise InputError(
            f"fine label {fine[strays[0]]} is under two coarse labels; each must be under one"
        )
    return parent, fines


def _drawn(
    draw: np.random.Generator, first: Any, second: Any, parent: Rows, stock: Rows, size: int
) -> Rows:
    """How many of each fine label ``size`` draws take from the stock.

    While no label runs out the draws are i.i.d. So all that are left are drawn at once, and those
    after the first draw that empties a label are thrown away and drawn anew: as one by one, at the
    cost of a draw per empty label.
    """
    taken = np.zeros_like(stock)
    while (left := size - taken.sum()) > 0:
        labels = draw.choice(len(stock), left, p=_chances(first, second, parent, stock > taken))
        order = np.argsort(labels, kind="stable")
        counts = np.bincount(labels, minlength=len(stock))
        room = stock - taken
        emptied = np.flatnonzero((counts >= room) & (counts > 0))
        # `order` lists the draws label by label, so the draw that takes a label's last sample is
        # `room` places after the label's first. The earliest of these draws is the last good one.
        last = order[(np.cumsum(counts) - counts + room - 1)[emptied]]
        taken += np.bincount(labels[: min(last, default=left) + 1], minlength=len(stock))
    return taken


def _chances(
    first: Any, second: Any, parent: Rows, there: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """P(coarse) · P(fine | coarse), both among what is still there."""
    within = np.where(there, second, 0.0)
    # A coarse label of which nothing is left would divide by zero; its fine labels stay at 0.
    within /= np.maximum(np.bincount(parent, within), np.finfo(float).tiny)[parent]
    chances = first[parent] * within
    if chances.sum() == 0:  # a client whose every label has run out takes what is left
        chances = there.astype(float)
    return np.asarray(chances / chances.sum())


def by_client(owner: Integers, clients: int, seed: int, group: str = "") -> Partition:
    """The partition that gives each row to its owner; within a client rows are shuffled.

    >>> by_client(np.array([1, 0, 1, 1]), 2, seed=0).sizes
    array([1, 3])
    """
    # Shuffled first and sorted stably by owner then: one draw for all clients.
    shuffled = generator(seed, "order", group).permutation(len(owner))
    rows = shuffled[np.argsort(owner[shuffled], kind="stable")]
    return Partition(rows, _offsets(np.bincount(owner, minlength=clients)))


def halves(rows: int, historical: float, seed: int) -> tuple[Rows, Rows]:
    """The rows of the historical group, round(historical · N) at random, and the fresh one.

    >>> [len(group) for group in halves(50_000, 0.05, seed=0)]
    [2500, 47500]
    """
    _require(0 < historical < 1, "historical", historical, "between 0 and 1")
    shuffled = generator(seed, "halves").permutation(rows)
    first, second = np.split(shuffled, [round(historical * rows)])
    return np.sort(first), np.sort(second)


def historical_clients(clients: int, historical: float, seed: int) -> NDArray[np.bool_]:
    """Which clients are historical: round(historical · M) of M at random.

    At least one is historical and at least one is not.

    >>> historical_clients(300, 0.05, seed=0).sum()
    np.int64(15)
    """
    _require(0 < historical < 1, "historical", historical, "between 0 and 1")
    _require(clients >= 2, "clients", clients, "at least 2, one historical and one fresh")
    rank = generator(seed, "historical clients").permutation(clients)
    return np.asarray(rank < min(max(1, round(historical * clients)), clients - 1))


def generator(seed: int, *purpose: str) -> np.random.Generator:
    """A generator of its own for each seed and purpose."""
    key = tuple("/".join(purpose).encode())
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


def _offsets(sizes: Integers) -> Rows:
    return np.concatenate([[0], np.cumsum(sizes)])


def _require(condition: bool, setting: str, value: object, allowed: str) -> None:
    if not condition:
        raise InputError(f"{setting} is {value}: it must be {allowed}")
