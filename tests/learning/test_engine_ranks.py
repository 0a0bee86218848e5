"""Several ranks learn what one process learns, and only the first speaks and writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from ranks import together
from small_models import KINDS
from torch import distributed, nn

import headwater as hw
from headwater.learning import torchrun
from headwater.learning.engines import Loop, Ranks, Sequential
from headwater.learning.problem import Problem
from headwater.ledger.orders import LocalWork

pytestmark = pytest.mark.skipif(not distributed.is_gloo_available(), reason="PyTorch without gloo")


def clients(count=7):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20 * count, 5))
    y = (x[:, 0] > 0).astype(int)
    kinds = [(), (hw.Constant(2), hw.Fifo(4)), (hw.Poisson(1.5), hw.Reservoir(5))]
    return [
        hw.Client(x[20 * m : 20 * m + 20], y[20 * m : 20 * m + 20], *kinds[m % 3])
        for m in range(count)
    ]


def model(drops=0.0):
    torch.manual_seed(0)
    layers = nn.Linear(5, 8), nn.Dropout(drops), nn.Tanh(), nn.Linear(8, 2)
    return nn.Sequential(*layers).double()


def run(**other):
    settings = {"rounds": 9, "local_steps": 2, "batch_size": 3, "learning_rate": 0.3, "seed": 1}
    given = {"model": model(), "clients": clients(), **settings, **other}
    return hw.simulate(given.pop("model"), given.pop("clients"), **given)


SETTINGS = {
    "several steps": {},
    "one step": {"local_steps": 1, "batch_size": None},
    "one after the other": {"engine": "sequential"},
    "some take part": {"participation": 3},
    "dropout": {"model": model(drops=0.4)},
    "a projection": {"projection": hw.Ball(1.0)},
    "fewer clients than ranks": {"clients": clients(1)},
    "workers in every rank": {"workers": 2},
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("count", [2, 4])
def test_ranks_together_learn_what_one_process_learns(count, name):
    settings = SETTINGS[name]
    alone = run(**settings)

    def rank(_):
        mine = run(**settings)
        return mine.state.parameters.numpy(), mine.state.average.numpy(), mine.history

    answers = together(count, rank)
    for parameters, average, history in answers:
        np.testing.assert_allclose(parameters, alone.state.parameters.numpy(), rtol=0, atol=1e-10)
        np.testing.assert_allclose(average, alone.state.average.numpy(), rtol=0, atol=1e-10)
        assert [record.samples for record in history] == [r.samples for r in alone.history]
        assert np.array_equal(parameters, answers[0][0])  # the same bits in every rank


def test_every_client_is_one_ranks(monkeypatch):
    """The moves that each rank computes before they are added up sum to the loop's."""
    problem = KINDS["network"].problem()
    ledger = hw.Ledger.of([5, 9, 10], hw.Once(), hw.Keep(), hw.Uniform(), rounds=1)
    orders = LocalWork(2).orders(ledger.round(1))
    wanted = Loop(problem).moves(problem.initial(), orders, 0.3)
    monkeypatch.setattr(torchrun, "ranks", lambda: 3)
    monkeypatch.setattr(torchrun, "require_same", lambda name: None)
    monkeypatch.setattr(torchrun, "add_up", lambda total: total)
    engine, parts = Ranks(Sequential(problem), problem, orders), []
    for rank in range(3):
        monkeypatch.setattr(torchrun, "rank", lambda rank=rank: rank)
        parts.append(engine.moves(problem.initial(), orders, 0.3))
    assert all(part.abs().max() > 1e-6 for part in parts)
    torch.testing.assert_close(sum(parts), wanted, rtol=0, atol=1e-10)


def test_only_the_first_rank_speaks_and_writes(tmp_path):
    def rank(number):
        told = []
        run(checkpoint=tmp_path / str(number), progress=told.append)
        return len(told), (tmp_path / str(number)).exists()

    assert together(2, rank) == [(9, True), (0, False)]


def test_ranks_go_on_from_what_the_first_has_on_disk(tmp_path):
    """The other machines need not see the folder."""
    whole = run()
    run_in_half(tmp_path)

    def rank(number):
        told = []
        mine = run(checkpoint=tmp_path / ("folder" if not number else "none"), progress=told.append)
        return mine.state.parameters.numpy(), mine.history, len(told)

    (first, history, told), (second, same_history, _) = together(2, rank)
    np.testing.assert_allclose(first, whole.state.parameters.numpy(), rtol=0, atol=1e-10)
    assert np.array_equal(first, second)
    assert history == same_history
    assert 0 < told < 9


def run_in_half(tmp_path, rounds=4):
    from headwater.learning import checkpoint

    def stop(record):
        if record.round == rounds:
            raise KeyboardInterrupt

    seconds, checkpoint._SECONDS = checkpoint._SECONDS, 0.0
    try:
        with pytest.raises(KeyboardInterrupt):
            run(checkpoint=tmp_path / "folder", progress=stop)
    finally:
        checkpoint._SECONDS = seconds


def test_what_the_first_cannot_read_is_everybodys_error(tmp_path):
    (tmp_path / "state.npz").write_text("not a state")

    def rank(_):
        with pytest.raises(hw.InputError, match="state"):
            run(checkpoint=tmp_path)
        return "told"

    assert together(2, rank) == ["told", "told"]


def test_ranks_that_were_given_different_samples_are_refused():
    def rank(number):
        torch.manual_seed(number)  # as in a program that forgot to seed alike
        with pytest.raises(hw.InputError, match="different models, samples or settings"):
            run(model=nn.Linear(5, 2).double())
        return "refused"

    assert together(2, rank) == ["refused", "refused"]


def test_a_group_of_the_callers_own_is_used():
    def rank(_):
        distributed.init_process_group("gloo")
        found = run().state.parameters.numpy()
        distributed.destroy_process_group()
        return found

    one, two = together(2, rank)
    assert np.array_equal(one, two)


@pytest.mark.parametrize(
    "settings", [{}, {"local_steps": 3, "batch_size": 4}], ids=["all", "drawn"]
)
def test_of_samples_in_a_file_a_rank_takes_those_of_its_own_clients(tmp_path, settings):
    clients, each = 6, 20
    path = tmp_path / "x"
    np.random.default_rng(0).random((clients * each, 5)).tofile(path)
    real_take, real_moves = Problem.take, Ranks.moves

    def rank(_):
        x = torch.from_numpy(np.memmap(path, np.float64, "c").reshape(-1, 5))
        part = hw.Part(x, torch.arange(len(x)) % 2, np.arange(clients + 1) * each)
        people = hw.Federation(part, [hw.Once()] * clients, [hw.Keep()] * clients)
        taken, places = set(), set()

        def take(problem, rows):
            taken.update(np.arange(clients * each)[rows].tolist())
            places.add(problem.x.data_ptr() - x.data_ptr())
            return real_take(problem, rows)

        def moves(*given):  # what is looked at before the first round are a few of all samples
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Problem, "take", take)
                return real_moves(*given)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Ranks, "moves", moves)
            hw.simulate(model(), people, rounds=4, workers=0, **settings)
        return {row // each for row in taken}, places

    answers = together(3, rank)
    assert [who for who, _ in answers] == [{0, 1}, {2, 3}, {4, 5}]
    assert all(places == {0} for _, places in answers)  # where they lie: nothing is copied


def test_without_torchrun_there_is_one_rank_and_no_connection():
    assert (torchrun.ranks(), torchrun.rank(), torchrun.ranks_here()) == (1, 0, 1)
    assert torchrun.from_first(lambda: 7) == 7
    assert not distributed.is_initialized()


PROGRAM = """
    import json, os, signal, sys
    from pathlib import Path
    import numpy as np, torch, headwater as hw
    from headwater.learning import checkpoint

    checkpoint._SECONDS = 0.0
    folder = Path(sys.argv[1])
    rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 5)); y = (x[:, 0] > 0).astype(int)
    clients = [hw.Client(x[k : k + 20], y[k : k + 20]) for k in (0, 20, 40)]
    done = []

    def see(record):
        done.append(record.round)
        if attempt == 0 and record.round == 5:
            os.kill(os.getpid(), signal.SIGKILL)

    run = hw.simulate(torch.nn.Linear(5, 2).double(), clients, rounds=8, local_steps=2, seed=1,
                      checkpoint=folder / "run", progress=see)
    if rank == 0:
        found = {"parameters": run.state.parameters.tolist(), "rounds": done}
        (folder / "found.json").write_text(json.dumps(found))
"""


def test_torchrun_restarts_a_killed_rank_and_the_run_goes_on(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [sys.executable, *command, "--max-restarts=1", str(program), str(tmp_path)],
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["rounds"][0] > 1  # it went on; it did not begin anew
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 5))
    y = (x[:, 0] > 0).astype(int)
    torch.manual_seed(0)
    people = [hw.Client(x[k : k + 20], y[k : k + 20]) for k in (0, 20, 40)]
    alone = hw.simulate(nn.Linear(5, 2).double(), people, rounds=8, local_steps=2, seed=1)
    np.testing.assert_allclose(
        found["parameters"], alone.state.parameters.numpy(), rtol=0, atol=1e-10
    )
