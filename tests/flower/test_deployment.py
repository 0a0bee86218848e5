"""Real parts: flower-superlink with TLS and node keys, flower-supernodes, nodes, flwr run."""

from __future__ import annotations

import numpy as np
import pytest
from flower_bench import Bench
from test_same_answer import simulated, vector

import headwater as hw
from headwater.flower.journal import Journal

pytestmark = pytest.mark.xdist_group("flower")
SETTINGS = {"local_steps": 2, "learning_rate": 0.2, "seed": 5}


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    bench = Bench(tmp_path_factory.mktemp("bench"))
    yield bench
    bench.close()


def test_three_nodes_on_flower_give_the_simulators_model(bench, tmp_path):
    """With full batches; the run with faults below has mini-batches."""
    bench.fresh_nodes()
    bench.submit(tmp_path, num_rounds=2, **SETTINGS)
    found = bench.wait_for_model(tmp_path)
    run = simulated(hw.Uniform(), 2, **SETTINGS)
    np.testing.assert_allclose(found, vector(run.model), atol=1e-5)


def kill_node(bench):
    bench.kill("node0")


def kill_supernode(bench):
    bench.kill("supernode1")


def kill_client_app(bench):
    bench.kill_program("flwr-clientapp", 400)


def kill_server_app(bench):
    bench.kill_program("flwr-serverapp", 400)


def kill_superlink(bench):
    bench.kill("superlink")
    bench.start_superlink()


ALL = [(kill_client_app, kill_node, kill_supernode), (kill_server_app,), (kill_superlink,)]


def test_whatever_is_killed_in_a_round_the_model_is_the_same(bench, tmp_path):
    """Faults in the middle of each round; a run whose server died is submitted again."""
    disturb(bench, tmp_path, ALL)


@pytest.mark.soak
@pytest.mark.parametrize("faults", ALL, ids=["parts of clients", "server app", "superlink"])
def test_twenty_times_each(bench, tmp_path, faults):
    """The same, twenty rounds of one kind of fault.

    Questions are repeated less often than above: those that the dead left unread are answered, too,
    and each takes a new process.
    """
    disturb(bench, tmp_path, [faults] * 20, ask_again=20.0)


def disturb(bench, folder, faults, ask_again=8.0):
    """A run with these faults, one group in each round; its model must be the undisturbed one's."""
    bench.fresh_nodes()
    settings = {"num_rounds": len(faults) + 1, "batch_size": 3, "ask_again": ask_again} | SETTINGS
    bench.submit(folder, **settings)
    for number, group in enumerate(faults, 2):
        bench.wait_for_asked(folder, number, 1200)
        for fault in group:
            fault(bench)
        if {kill_server_app, kill_superlink} & set(group):
            bench.submit(folder, **settings)
    found = bench.wait_for_model(folder, 1200)
    rounds = Journal(folder / "rounds.jsonl").read()
    assert [entry.round for entry in rounds] == list(range(1, len(faults) + 2))
    # before the models are compared: a client that was left out is why they differ
    assert [entry.refused for entry in rounds] == [{}] * len(rounds), bench.logs()
    run = simulated(hw.Uniform(), len(faults) + 1, batch_size=3, **SETTINGS)
    np.testing.assert_allclose(found, vector(run.model), atol=1e-5)
