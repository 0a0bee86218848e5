"""Partitions: every row once, right sizes, the same everywhere, and shares distributed as they
should be."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InputError
from headwater.experiments.tasks.partition import (
    Partition,
    _drawn,
    by_client,
    dirichlet,
    halves,
    historical_clients,
    pachinko,
)

FINE = np.arange(5_000) * 7 % 100
COARSE = FINE // 5


def exact(partition: Partition, rows: int, clients: int) -> None:
    assert sorted(partition.rows.tolist()) == list(range(rows))
    assert partition.offsets[0] == 0
    assert partition.offsets[-1] == rows
    assert len(partition) == len(partition.sizes) == clients


def digest(partition: Partition) -> str:
    content = partition.rows.astype("<i8").tobytes() + partition.offsets.astype("<i8").tobytes()
    return hashlib.sha256(content).hexdigest()


@given(st.data())
def test_dirichlet_gives_every_row_once_and_leaves_nobody_empty(data: st.DataObject) -> None:
    labels = np.array(data.draw(st.lists(st.integers(-3, 3), min_size=1, max_size=60)))
    clients = data.draw(st.integers(1, len(labels)))
    partition = dirichlet(
        labels,
        clients,
        data.draw(st.sampled_from([0.01, 0.4, 50.0])),
        data.draw(st.integers(0, 99)),
    )
    exact(partition, len(labels), clients)
    assert partition.sizes.min() >= 1


@given(st.data())
def test_pachinko_gives_every_row_once_in_equal_parts(data: st.DataObject) -> None:
    fine = np.array(data.draw(st.lists(st.integers(0, 11), min_size=1, max_size=60)))
    clients = data.draw(st.integers(1, len(fine)))
    partition = pachinko(
        fine % 3,
        fine,
        clients,
        data.draw(st.integers(0, 99)),
        data.draw(st.sampled_from([1e-4, 0.1])),
    )
    exact(partition, len(fine), clients)
    assert partition.sizes.max() - partition.sizes.min() <= 1


def test_partitions_are_the_same_on_every_machine() -> None:
    labels = np.arange(5_000) % 10
    assert (
        digest(dirichlet(labels, 25, 0.4, seed=1))
        == "06f507491d2bf1478cd267ce7f392cece10a31d90d408463380bddd695ef7f15"
    )
    assert (
        digest(pachinko(COARSE, FINE, 25, seed=1))
        == "d0805830f522be98b9e49820ce7f1020cb9cc05de39b0c3b97e2b68aed7521c8"
    )


@pytest.mark.parametrize(
    "deal",
    [
        lambda seed, group: dirichlet(FINE, 25, 0.4, seed, group),
        lambda seed, group: pachinko(COARSE, FINE, 25, seed, group=group),
        lambda seed, group: by_client(FINE, 100, seed, group),
    ],
)
def test_seed_and_group_decide(deal: Callable[[int, str], Partition]) -> None:
    reference = digest(deal(3, "fresh"))
    assert digest(deal(3, "fresh")) == reference
    assert digest(deal(4, "fresh")) != reference
    assert digest(deal(3, "historical")) != reference


def test_the_shares_of_a_label_have_the_moments_of_a_symmetric_dirichlet_distribution() -> None:
    labels, clients, concentration = np.repeat(np.arange(2_000), 200), 5, 0.4
    partition = dirichlet(labels, clients, concentration, seed=0)
    owner = np.repeat(np.arange(clients), partition.sizes)
    counts = np.zeros((2_000, clients))
    np.add.at(counts, (labels[partition.rows], owner), 1)
    shares = counts / 200
    total = clients * concentration
    variance = (1 / clients) * (1 - 1 / clients) / (total + 1)
    assert shares.mean(axis=0) == pytest.approx(
        np.full(clients, 1 / clients), abs=4 * np.sqrt(variance / 2_000)
    )
    assert shares.var(axis=0) == pytest.approx(np.full(clients, variance), rel=0.08)
    covariance = np.cov(shares.T)[np.triu_indices(clients, 1)].mean()
    assert covariance == pytest.approx(-1 / clients**2 / (total + 1), rel=0.08)


def test_a_large_concentration_deals_evenly_and_a_small_one_does_not() -> None:
    labels = np.arange(5_000) % 10
    assert np.ptp(dirichlet(labels, 10, 1e6, seed=0).sizes) < 15
    assert np.ptp(dirichlet(labels, 10, 0.1, seed=0).sizes) > 500


def outcomes(
    chance: Callable[[np.ndarray], np.ndarray], stock: tuple[int, ...], size: int
) -> Counter[tuple[int, ...]]:
    """The exact distribution of what ``size`` draws, one after the other, take from the stock."""
    if size == 0:
        return Counter({(0,) * len(stock): 1.0})  # type: ignore[dict-item]
    found: Counter[tuple[int, ...]] = Counter()
    for label, p in enumerate(chance(np.array(stock) > 0)):
        if p > 0:
            rest = tuple(s - (i == label) for i, s in enumerate(stock))
            for taken, q in outcomes(chance, rest, size - 1).items():
                found[tuple(t + (i == label) for i, t in enumerate(taken))] += p * q
    return found


def test_drawing_many_at_once_is_as_drawing_one_by_one() -> None:
    first, second = np.array([0.7, 0.3]), np.array([1.0, 3.0, 2.0, 2.0])
    parent, stock, size = np.array([0, 0, 1, 1]), (3, 2, 1, 4), 5

    def chance(there: np.ndarray) -> np.ndarray:
        coarse = np.array([first[0] * there[:2].any(), first[1] * there[2:].any()])
        within = second * there
        sums = np.array([within[:2].sum(), within[2:].sum()])
        return np.asarray(
            (coarse / coarse.sum())[parent] * within / np.where(sums > 0, sums, 1)[parent]
        )

    exactly = outcomes(chance, stock, size)
    assert sum(exactly.values()) == pytest.approx(1)
    draw, many = np.random.default_rng(0), 6_000
    seen = Counter(
        tuple(_drawn(draw, first, second, parent, np.array(stock), size).tolist())
        for _ in range(many)
    )
    assert seen.keys() <= exactly.keys()
    surprise = sum(
        (seen[k] - many * p) ** 2 / (many * p) for k, p in exactly.items() if many * p > 5
    )
    cells = sum(many * p > 5 for p in exactly.values())
    assert surprise < cells + 4 * np.sqrt(2 * cells)  # χ², four deviations above its mean


def test_pachinko_clients_have_few_coarse_labels_and_all_fine_labels_under_them() -> None:
    partition = pachinko(COARSE, FINE, 25, seed=5)
    first = partition.client(0)
    shares = np.bincount(COARSE[first], minlength=20) / len(first)
    assert 1 / (shares**2).sum() < 6  # effectively few of 20
    main = int(shares.argmax())
    assert np.isin(np.arange(5 * main, 5 * main + 5), FINE[first]).all()


def test_a_fine_label_under_two_coarse_ones_is_refused() -> None:
    with pytest.raises(InputError, match="fine label 4 is under two"):
        pachinko(np.array([0, 1, 1]), np.array([4, 4, 5]), 2, seed=0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            lambda: dirichlet(FINE[:3], 4, 0.4, 0),
            "clients is 4: it must be from 1 to the number of rows, 3",
        ),
        (lambda: dirichlet(FINE, 4, 0.0, 0), "concentration is 0.0: it must be above 0"),
        (lambda: pachinko(COARSE, FINE, 0, 0), "clients is 0"),
        (lambda: pachinko(COARSE, FINE, 5, 0, beta=-1.0), "beta"),
        (lambda: halves(100, 0.0, 0), "historical is 0.0: it must be between 0 and 1"),
        (lambda: historical_clients(1, 0.5, 0), "clients is 1"),
        (lambda: by_client(FINE, 100, 0).carve(1.0), "validation fraction is 1.0"),
    ],
)
def test_impossible_settings_are_refused(wrong: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        wrong()


def test_rows_stay_with_their_owners_and_are_shuffled() -> None:
    owner = np.repeat([2, 0, 4], [300, 200, 100])
    partition = by_client(owner, 6, seed=0)
    exact(partition, 600, 6)
    assert partition.sizes.tolist() == [200, 0, 300, 0, 100, 0]
    assert (owner[partition.client(2)] == 2).all()
    ups = sum(a < b for a, b in pairwise(partition.client(2)))
    assert 100 < ups < 200  # about half of the steps go up


@pytest.mark.parametrize(("fraction", "size"), [(0.05, 2_500), (0.2, 10_000), (0.5, 25_000)])
def test_the_groups_have_the_papers_sizes_and_are_dealt_to_their_own_clients(
    fraction: float, size: int
) -> None:
    labels = np.arange(50_000) // 5_000  # sorted: a split that did not draw would show
    old, new = halves(50_000, fraction, seed=1)
    assert len(old) == size
    assert np.bincount(labels[old]).min() > 0.08 * size
    deals = [
        dirichlet(labels[g], 25, 0.4, 1, n).within(g)
        for g, n in ((old, "historical"), (new, "fresh"))
    ]
    partition = deals[0].join(deals[1])
    exact(partition, 50_000, 50)
    assert set(partition.rows[: partition.offsets[25]]) == set(old)
    np.testing.assert_array_equal(partition.client(30), deals[1].client(5))


@pytest.mark.parametrize(
    ("clients", "fraction", "historical"),
    [(300, 0.05, 15), (1233, 0.2, 247), (3, 0.01, 1), (2, 0.9, 1)],
)
def test_the_number_of_historical_clients(clients: int, fraction: float, historical: int) -> None:
    chosen = historical_clients(clients, fraction, seed=0)
    assert (len(chosen), chosen.sum()) == (clients, historical)
    if clients == 300:
        assert (chosen != historical_clients(clients, fraction, seed=1)).any()


def test_validation_takes_its_fraction_from_every_client() -> None:
    whole = dirichlet(np.arange(5_000) % 10, 25, 0.4, seed=2)
    train, validation = whole.carve(0.1)
    np.testing.assert_array_equal(validation.sizes, whole.sizes // 10)
    for client in range(25):
        both = np.concatenate([train.client(client), validation.client(client)])
        np.testing.assert_array_equal(both, whole.client(client))
