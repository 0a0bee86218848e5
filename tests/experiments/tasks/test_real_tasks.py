"""The tasks on small real fixtures: what is dealt to whom, when it is there, one round of
learning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from real_slices import FIXTURES

from headwater import Fresh, Uniform, simulate
from headwater.errors import InputError
from headwater.experiments.data import load_cifar10, load_femnist, load_shakespeare
from headwater.experiments.data.cifar import CIFAR10, normalise
from headwater.experiments.tasks.cifar import Cifar10Task, Cifar100Task
from headwater.experiments.tasks.femnist import FemnistTask
from headwater.experiments.tasks.shakespeare import ShakespeareTask
from headwater.experiments.tasks.task import Task
from headwater.learning.federation import Federation
from headwater.learning.losses import cross_entropy
from headwater.learning.stored import Stored
from headwater.ledger.ledger import Ledger

ROUNDS = 8
ON_DATA = ["cifar10", "cifar100", "femnist", "shakespeare"]
Tasks = dict[str, Task]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tasks]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADWATER_DATA", str(tmp_path_factory.mktemp("home")))
        yield {
            "cifar10": Cifar10Task(FIXTURES, group=5),
            "cifar100": Cifar100Task(FIXTURES, group=5),
            "femnist": FemnistTask(FIXTURES),
            "shakespeare": ShakespeareTask(FIXTURES),
        }


def rows(federation: Federation) -> list[int]:
    assert federation.train.rows is not None
    return federation.train.rows.tolist()


def held_rounds(federation: Federation, client: int, rounds: int) -> list[int]:
    """The rounds in which a client holds anything."""
    holdings = federation.holdings(rounds)
    own = holdings.client == client
    return [t for t in range(1, rounds + 1) if holdings.held(t)[own].any()]


@pytest.mark.parametrize("name", ON_DATA)
def test_every_training_row_is_dealt_once_and_the_validation_rows_are_learned_from_only_in_the_end(
    tasks: Tasks, name: str
) -> None:
    split = tasks[name].split(0.2, ROUNDS, 3)
    total = len(split.final.train.x)
    assert sorted(rows(split.final)) == list(range(total))
    assert split.tuning.test is not None
    assert split.tuning.test.rows is not None
    validation = split.tuning.test.rows.tolist()
    assert sorted(rows(split.tuning) + validation) == list(range(total))
    assert len(validation) == (split.final.train.counts // 5).sum() > 0
    assert len(split.tuning.test.offsets) == 2  # pooled


@pytest.mark.parametrize("name", ON_DATA)
def test_a_seed_decides_the_deal(tasks: Tasks, name: str) -> None:
    one, again, other = (rows(tasks[name].split(0.2, ROUNDS, seed).final) for seed in (1, 1, 2))
    assert one == again
    assert one != other


@pytest.mark.parametrize("name", ON_DATA)
def test_the_whole_stream_comes_within_the_run_and_somebody_fresh_is_there_in_every_round(
    tasks: Tasks, name: str
) -> None:
    federation = tasks[name].split(0.2, ROUNDS, 0).final
    holdings = federation.holdings(ROUNDS)
    assert (holdings.collected == federation.train.counts).all()
    fresh = ~holdings.historical[holdings.client]
    assert all((holdings.held(t) & fresh).any() for t in range(1, ROUNDS + 1))
    assert (Ledger.weigh(holdings, Fresh()).round_shares > 0).all()


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_cifar_has_two_groups_of_clients_and_one_common_test_set(tasks: Tasks, name: str) -> None:
    federation = tasks[name].split(0.2, ROUNDS, 0).final
    holdings, counts = federation.holdings(ROUNDS), federation.train.counts
    assert holdings.historical.tolist() == [True] * 5 + [False] * 5
    assert counts[:5].sum() == round(0.2 * counts.sum())
    assert federation.test is not None
    assert federation.test.counts.tolist() == [10]
    for client in range(5, 10):  # the newest ⌈N_m / T⌉ samples, at most
        own = holdings.client == client
        assert max(holdings.held(t)[own].sum() for t in range(1, ROUNDS + 1)) <= -(
            -counts[client] // ROUNDS
        )


def test_cifar_images_are_normalised_and_lie_channels_last(tasks: Tasks) -> None:
    chosen = tasks["cifar10"]
    assert isinstance(chosen, Cifar10Task)
    raw = load_cifar10(chosen.data_dir)
    assert chosen.data.x.shape == (90, 3, 32, 32)
    x = chosen.data.x[:]
    assert x.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_allclose(x.numpy(), normalise(raw.images, CIFAR10), atol=1e-6)
    assert chosen.data.y.tolist() == raw.labels.tolist()
    assert not chosen.complete


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no list of mapped files")
@pytest.mark.parametrize("name", ["cifar10", "cifar100", "femnist"])
def test_images_stay_the_bytes_of_the_mapped_file(tasks: Tasks, name: str) -> None:
    federation = tasks[name].split(0.2, ROUNDS, 0).final
    assert federation.test is not None
    for part in (federation.train, federation.test):
        assert isinstance(part.x, Stored)
        assert part.x.kept.dtype == torch.uint8
        assert mapped_file(part.x.kept.data_ptr()).startswith(f"{name}-")


def mapped_file(address: int) -> str:
    """The name of the file that is mapped there, if any."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, end = (int(edge, 16) for edge in line.split()[0].split("-"))
        if first <= address < end:
            return Path(line.split()[-1]).name
    return ""


def test_pachinko_gives_clients_few_of_the_coarse_labels(tasks: Tasks) -> None:
    chosen = tasks["cifar100"]
    assert isinstance(chosen, Cifar100Task)
    federation = chosen.split(0.5, ROUNDS, 0).final
    coarse = chosen.data.coarse
    assert coarse is not None
    dealt = [
        coarse[part]
        for part in np.split(np.array(rows(federation)), federation.train.offsets[1:-1])
    ]
    assert len(set(federation.train.counts.tolist())) <= 2
    most = [np.bincount(labels).max() / len(labels) for labels in dealt]
    assert np.mean(most) > 2 * np.bincount(coarse).max() / len(coarse)


@pytest.mark.parametrize(("name", "stay"), [("femnist", 1), ("shakespeare", 2)])
def test_fresh_writers_and_roles_are_there_for_a_round_or_two(
    tasks: Tasks, name: str, stay: int
) -> None:
    federation = tasks[name].split(0.2, ROUNDS, 0).final
    holdings = federation.holdings(ROUNDS)
    assert holdings.historical.sum() == 2
    for client in range(len(federation)):
        there = held_rounds(federation, client, ROUNDS)
        if holdings.historical[client]:
            assert there == list(range(1, ROUNDS + 1))
        else:
            assert 1 <= len(there) <= stay
            assert there == list(range(there[0], there[0] + len(there)))


@pytest.mark.parametrize(("name", "stay"), [("femnist", 1), ("shakespeare", 2)])
def test_more_rounds_than_fresh_clients_can_fill_are_refused(
    tasks: Tasks, name: str, stay: int
) -> None:
    tasks[name].split(0.2, 8 * stay, 0)
    with pytest.raises(
        InputError, match=rf"rounds={8 * stay + 1}: 8 fresh clients.*at most {8 * stay} rounds"
    ):
        tasks[name].split(0.2, 8 * stay + 1, 0)


def test_writers_are_tested_on_their_own_samples(tasks: Tasks) -> None:
    chosen = tasks["femnist"]
    assert isinstance(chosen, FemnistTask)
    raw = load_femnist(chosen.data_dir)
    test = chosen.split(0.2, ROUNDS, 0).final.test
    assert test is not None
    assert test.rows is not None
    owners = [
        set(raw.test_client[part].tolist()) for part in np.split(test.rows, test.offsets[1:-1])
    ]
    assert owners == [{w} for w in range(10)]


def test_roles_learn_from_their_own_sequences(tasks: Tasks) -> None:
    chosen = tasks["shakespeare"]
    assert isinstance(chosen, ShakespeareTask)
    raw = load_shakespeare(chosen.data_dir)
    train = chosen.split(0.2, ROUNDS, 0).final.train
    assert train.rows is not None
    owners = [set(raw.client[part].tolist()) for part in np.split(train.rows, train.offsets[1:-1])]
    assert owners == [{r} for r in range(10)]
    assert train.x.shape[1] == 80


@pytest.mark.parametrize("name", ON_DATA)
def test_one_round_goes_down_the_weighted_gradient_of_what_is_in_the_memories(
    tasks: Tasks, name: str
) -> None:
    federation, model = tasks[name].split(0.2, ROUNDS, 0).final, tasks[name].model(0)
    run = simulate(
        model, federation, Uniform(), ROUNDS, learning_rate=0.05, workers=0, test_every=ROUNDS
    )
    weights = run.ledger.weights_at(1)
    held = np.flatnonzero(weights)
    assert federation.train.rows is not None
    picked = torch.from_numpy(federation.train.rows[held])
    losses = cross_entropy(model(federation.train.x[picked]), federation.train.y[picked])
    shares = torch.from_numpy(weights[held] / weights.sum()).float()
    gradient = torch.autograd.grad(losses @ shares, list(model.parameters()))
    length = torch.sqrt(sum((g.square().sum() for g in gradient), torch.zeros(())))
    assert run.history[0].move == pytest.approx(0.05 * float(length), rel=1e-3)
    assert run.history[-1].accuracy is not None
