"""Bad input: an InputError that names the setting, before anything is lost."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import headwater as hw

X = np.random.default_rng(0).normal(size=(8, 3))
Y = np.arange(8) % 3
NAN, INF = math.nan, math.inf


def client(x=X, y=Y, **how):
    return hw.Client(x, y, **how)


def put(array, value):
    array = np.array(array, float)
    array.flat[4] = value
    return array


def run(clients=None, strategy=None, model=None, **settings):
    clients = [client(), client()] if clients is None else clients
    return hw.simulate(model or nn.Linear(3, 3), clients, strategy, **{"rounds": 3, **settings})


def ledger(strategy, rounds=3):
    return hw.Ledger.of(
        [2, 3], [hw.Once(), hw.Constant(1)], [hw.Keep(), hw.Fifo(1)], strategy, rounds
    )


# A setting's name (or what stands for it in the message), and what is done wrong.
CASES = {
    "nan features": (r"Client\(x\).*sample 1 ", lambda: client(put(X, NAN))),
    "infinite features": (r"Client\(x\)", lambda: client(put(X, INF))),
    "nan tensor": (r"Client\(x\)", lambda: client(torch.tensor(put(X, NAN)))),
    "nan labels": (r"Client\(y\)", lambda: client(y=put(Y, NAN))),
    "infinite labels": (r"Client\(y\)", lambda: client(y=put(Y, -INF))),
    "nan test": (r"Client\(test x\)", lambda: client(test=(put(X, NAN), Y))),
    "labels as words": (r"Client\(y\).*whole numbers", lambda: client(y=["cat", "dog"] * 4)),
    "features as words": (r"Client\(x\)", lambda: client(x=[["a"]] * 8)),
    "features of unequal length": (r"Client\(x\)", lambda: client(x=[[1.0, 2.0], [3.0]], y=[0, 1])),
    "no samples": (r"empty", lambda: client(X[:0], Y[:0])),
    "no test samples": (r"test x is empty", lambda: client(test=(X[:0], Y[:0]))),
    "more features than labels": (r"x and y", lambda: client(y=Y[:5])),
    "a number that is nan": (r"Client\(x\)", lambda: client(x=NAN, y=1)),
    "arrivals as a number": (r"Client\(arrivals\)", lambda: client(arrivals=4)),
    "memory as a number": (r"Client\(memory\)", lambda: client(memory=4)),
    "arrivals as a class": (r"Client\(arrivals\)", lambda: client(arrivals=hw.Once)),
    "memory as a class": (r"Client\(memory\)", lambda: client(memory=hw.Keep)),
    "no clients": (r"clients", lambda: run([])),
    "not a client": (r"clients.*number 1 is a tuple", lambda: run([client(), (X, Y)])),
    "one client has other features": (r"client 1", lambda: run([client(), client(X[:, :2])])),
    "one client has other labels": (
        r"client 1",
        lambda: run([client(), client(y=Y.astype(float))]),
    ),
    "one client has other tests": (
        r"client 1: test",
        lambda: run([client(test=(X, Y)), client(X[:, :1], test=(X[:, :1], Y))]),
    ),
    "tests unlike the samples": (r"Client\(test\)", lambda: client(test=(X[:, :2], Y))),
    "class that does not exist": (r"labels.*from 0 to 3", lambda: run([client(), client(y=Y + 1)])),
    "negative class": (r"labels.*from -3 to 2", lambda: run([client(), client(y=Y - 3)])),
    "fractions for classes": (r"labels.*loss=", lambda: run([client(y=Y + 0.5)])),
    "signs for a coin": (
        r"labels.*from -1 to 1",
        lambda: run([client(y=np.where(Y > 1, 1, -1))], model=nn.Linear(3, 1)),
    ),
    "model of other width": (r"model\(x\)", lambda: run(model=nn.Linear(4, 3))),
    "model without parameters": (r"model", lambda: run(model=nn.Identity())),
    "model that is frozen": (r"model", lambda: run(model=nn.Linear(3, 3).requires_grad_(False))),
    "model of two precisions": (
        r"model.*float32.*float64",
        lambda: run(model=nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3).double())),
    ),
    "model in half precision": (r"model", lambda: run(model=nn.Linear(3, 3).half())),
    "model with running statistics": (
        r"GroupNorm",
        lambda: run(model=nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))),
    ),
    "model that is a function": (r"model", lambda: run(model=lambda x: x)),
    "loss that is one number": (
        r"loss.*reduction='none'",
        lambda: run(loss=nn.functional.cross_entropy),
    ),
    "capacity 0": (r"Fifo\(capacity\).*got 0", lambda: hw.Fifo(0)),
    "capacity below 0": (r"Reservoir\(capacity\).*got -2", lambda: hw.Reservoir(-2)),
    "capacity half": (r"Fifo\(capacity\).*got 2\.5", lambda: hw.Fifo(2.5)),
    "capacity yes": (r"Fifo\(capacity\).*got True", lambda: hw.Fifo(True)),
    "rate 0": (r"Constant\(rate\).*got 0", lambda: hw.Constant(0)),
    "rate below 0": (r"Poisson\(rate\).*got -1", lambda: hw.Poisson(-1)),
    "rate nan": (r"Poisson\(rate\).*got nan", lambda: hw.Poisson(NAN)),
    "rate a word": (r"Constant\(rate\).*got 'fast'", lambda: hw.Constant("fast")),
    "rate above capacity": (
        r"client 1.*Constant\(rate=5\).*capacity=4",
        lambda: run([client(), client(arrivals=hw.Constant(5), memory=hw.Fifo(4))]),
    ),
    "all at once above capacity": (
        r"client 0.*Once\(\).*holds 4",
        lambda: run([client(memory=hw.Reservoir(4))]),
    ),
    "trace empty": (r"Trace\(counts\)", lambda: hw.Trace([])),
    "trace of zeros": (r"Trace\(counts\)", lambda: hw.Trace([0, 0])),
    "trace negative": (r"Trace\(counts\)", lambda: hw.Trace([1, -1])),
    "trace of fractions": (r"Trace\(counts\)", lambda: hw.Trace([1.5])),
    "window backwards": (r"Window\(first, last\)", lambda: hw.Window(5, 3)),
    "window from 0": (r"Window\(first, last\)", lambda: hw.Window(0, 3)),
    "window of fractions": (r"Window\(first, last\)", lambda: hw.Window(1.5, 3)),
    "weights nan": (r"weights.*sample 1 of client 0", lambda: ledger(hw.Given([1, NAN, 1, 1, 1]))),
    "weights infinite": (r"weights", lambda: ledger(hw.Given([1, INF, 1, 1, 1]))),
    "weights negative": (
        r"weights.*sample 2 of client 1",
        lambda: ledger(hw.Given([1, 1, -1, 1, 1])),
    ),
    "weights too few": (r"weights.*5 samples", lambda: ledger(hw.Given([1, 1]))),
    "weights nan later": (
        r"weights in round 2",
        lambda: ledger(hw.Given(lambda t: [NAN if t == 2 else 1.0] * 5)),
    ),
    "weights all zero in a round": (
        r"round 2",
        lambda: ledger(hw.Given(lambda t: [float(t != 2)] * 5)),
    ),
    "weights all zero": (r"round 1 \(3 such rounds", lambda: ledger(hw.Given([0.0] * 5))),
    "weights words": (r"Given\(values\)", lambda: ledger(hw.Given(["a"] * 5))),
    "nobody there in the first round": (
        r"round 1",
        lambda: run([client(arrivals=hw.Window(2, 3))]),
    ),
    "shares do not sum to one": (
        r"Importance\(p\).*sum to 0\.9",
        lambda: hw.Importance([0.4, 0.5]),
    ),
    "shares negative": (r"Importance\(p\)", lambda: hw.Importance([1.5, -0.5])),
    "shares nan": (r"Importance\(p\)", lambda: hw.Importance([NAN, 1.0])),
    "shares for other clients": (
        r"Importance\(p\).*3 shares for 2 clients",
        lambda: run(strategy=hw.Importance([0.2, 0.3, 0.5])),
    ),
    "share above one": (r"Share\(historical\)", lambda: hw.Share(1.2)),
    "share nan": (r"Share\(historical\)", lambda: hw.Share(NAN)),
    "ratio negative": (r"Optimal\(ratio\).*-0\.1", lambda: hw.Optimal(ratio=-0.1)),
    "ratio nan": (r"Optimal\(ratio\)", lambda: hw.Optimal(ratio=NAN)),
    "bound unknown": (r"Optimal\(bound\)", lambda: hw.Optimal(ratio=0.1, bound="loose")),
    "importance for nobody": (
        r"client 1.*holds no sample",
        lambda: run([client(), client(arrivals=hw.Window(9, 9))], hw.Importance([0.5, 0.5])),
    ),
    "historical without any": (
        r"historical",
        lambda: run([client(arrivals=hw.Constant(1), memory=hw.Fifo(1))], hw.Historical()),
    ),
    "fresh without any": (r"fresh", lambda: run(strategy=hw.Fresh())),
    "strategy as a word": (r"strategy", lambda: run(strategy="uniform")),
    "strategy as a class": (r"strategy", lambda: run(strategy=hw.ByMemory)),
    "rounds 0": (r"rounds.*got 0", lambda: run(rounds=0)),
    "rounds half": (r"rounds.*got 2\.5", lambda: run(rounds=2.5)),
    "local steps 0": (r"local_steps.*got 0", lambda: run(local_steps=0)),
    "batch size 0": (r"batch_size.*got 0", lambda: run(batch_size=0)),
    "batch size half": (r"batch_size.*got 0\.5", lambda: run(batch_size=0.5)),
    "learning rate 0": (r"learning_rate.*got 0", lambda: run(learning_rate=0)),
    "learning rate nan": (r"learning_rate.*got nan", lambda: run(learning_rate=NAN)),
    "learning rate a word": (r"learning_rate", lambda: run(learning_rate="fast")),
    "schedule that ends": (r"learning_rate.*round 3", lambda: run(learning_rate=lambda t: 3.0 - t)),
    "participation 0": (r"participation", lambda: run(participation=0)),
    "participation negative": (r"participation", lambda: run(participation=-0.5)),
    "participation of two and a half": (r"participation", lambda: run(participation=2.5)),
    "test every -1": (r"test_every", lambda: run([client(test=(X, Y))], test_every=-1)),
    "engine unknown": (r"engine.*loop.*got 'gpu'", lambda: run(engine="gpu")),
    "fused with two steps": (r"engine 'fused'", lambda: run(engine="fused", local_steps=2)),
    "workers negative": (r"workers", lambda: run(workers=-1)),
    "ball of radius 0": (r"Ball\(radius\)", lambda: hw.Ball(0)),
    "ball of radius nan": (r"Ball\(radius\)", lambda: hw.Ball(NAN)),
    "box upside down": (r"Box\(low, high\)", lambda: hw.Box(1, -1)),
    "ball of radius None": (r"Ball\(radius\).*got None", lambda: hw.Ball(None)),
    "ball of a word": (r"Ball\(radius\).*got '3'", lambda: hw.Ball("3")),
    "box of words": (r"Box\(low\).*got 'a'", lambda: hw.Box("a", 1)),
    "projection that gives nothing": (
        r"projection: .*vector of 12 parameters.*NoneType",
        lambda: run(projection=lambda theta: None),
    ),
    "one client and no list": (r"clients: .*write \[client\]", lambda: run(client())),
    "clients that are a number": (r"clients: a list", lambda: run(3)),
    "complex features": (r"Client\(x\)", lambda: client(X * 1j)),
    "complex tensor": (r"Client\(x\): a dense tensor", lambda: client(torch.tensor(X * 1j))),
    "sparse features": (r"Client\(x\): a dense", lambda: client(torch.tensor(X).to_sparse())),
    "test without labels": (r"Client\(test\): a pair", lambda: client(test=X)),
    "test of three": (r"Client\(test\): a pair", lambda: client(test=(X, Y, Y))),
    "common test without labels": (r"test: a pair", lambda: run(test=X)),
    "common test of another width": (
        r"test: features \(2,\).*have \(3,\)",
        lambda: run(test=(X[:, :2], Y)),
    ),
    "test labels out of range": (
        r"labels: 3 classes.*test labels.*from 0 to 5",
        lambda: run(test=(X, np.arange(8) % 6)),
    ),
    "a client's test labels out of range": (
        r"labels: 3 classes.*test labels",
        lambda: run([client(test=(X, Y)), client(test=(X, Y - 1))]),
    ),
    "test labels of another kind": (
        r"test: labels .*float64.*int64",
        lambda: run(test=(X, Y + 0.5)),
    ),
    "test features of another kind": (
        r"test: features .*int64.*float64",
        lambda: run(test=(X.astype(int), Y)),
    ),
    "metrics that are a function": (r"metrics: names and functions", lambda: run(metrics=len)),
    "a metric that is a word": (
        r"metrics\['a'\]: a function.*got 'mae'",
        lambda: run(metrics={"a": "mae"}),
    ),
    "a metric called loss": (r"metrics: .*'loss'", lambda: run(metrics={"loss": hw.accuracy})),
    "a metric that is one number": (
        r"metrics\['a'\]: one number per sample",
        lambda: run(test=(X, Y), metrics={"a": lambda o, t: o.mean()}),
    ),
    "a metric that fails": (
        r"metrics\['a'\] fails on outputs \(3, 3\)",
        lambda: run(test=(X, Y), metrics={"a": lambda o, t: o - t[:2]}),
    ),
    "a metric with an unknown end": (
        r"Metric\(better\)",
        lambda: hw.Metric(hw.accuracy, better="more"),
    ),
    "loss that is a word": (r"loss: a function", lambda: run(loss="mse")),
    "progress that is a word": (r"progress: ", lambda: run(progress="bar")),
    "model that is a class": (r"model: .*nn\.Module.*Linear\(", lambda: run(model=nn.Linear)),
    "learning rate a number in words": (
        r"learning_rate.*got '0\.1'",
        lambda: run(learning_rate="0.1"),
    ),
    "learning rate yes": (r"learning_rate.*got True", lambda: run(learning_rate=True)),
    "no seed": (r"seed: a whole number.*got None", lambda: run(seed=None)),
    "seed half": (r"seed.*got 0\.5", lambda: run(seed=0.5)),
    "seed yes": (r"seed.*got True", lambda: run(seed=True)),
    "test every half": (r"test_every.*got 2\.5", lambda: run(test_every=2.5)),
    "test every yes": (r"test_every.*got True", lambda: run(test_every=True)),
    "version that is a number": (r"version: a word.*got 3", lambda: run(version=3)),
    "samples a client of a ledger": (
        r"client 1 is empty",
        lambda: hw.unroll([1, 0], hw.Once(), hw.Keep(), 3),
    ),
    "fractions of samples": (r"whole numbers", lambda: hw.unroll([1.5], hw.Once(), hw.Keep(), 3)),
    "rules for other clients": (
        r"2 clients",
        lambda: hw.unroll([1, 1], [hw.Once()] * 3, hw.Keep(), 3),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_named(case):
    words, mistake = CASES[case]
    with pytest.raises(hw.InputError, match=words) as caught:
        mistake()
    assert "\n" not in str(caught.value)  # one line


def test_numpys_numbers_are_as_good_as_pythons():
    one = run(
        rounds=np.int32(3),
        local_steps=np.uint8(2),
        batch_size=np.int64(4),
        learning_rate=np.float32(0.25),
        seed=np.uint16(3),
        test_every=np.int8(1),
        projection=hw.Ball(np.float32(2.0)),
        model=model(),
    )
    two = run(
        rounds=3,
        local_steps=2,
        batch_size=4,
        learning_rate=0.25,
        seed=3,
        test_every=1,
        projection=hw.Ball(2.0),
        model=model(),
    )
    assert torch.equal(one.state.parameters, two.state.parameters)


def model():
    torch.manual_seed(0)
    return nn.Linear(3, 3)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("engine", "steps"),
    [("fused", 1), ("lockstep", 3), ("batched", 3), ("sequential", 3), ("loop", 3)],
)
def test_a_diverging_run_says_in_which_round_and_suggests_a_rate(engine, steps, workers):
    def square(output, target):
        return (output[:, 0] - target) ** 2

    clients = [client(1e3 * X, Y.astype(float))] * 2
    done = []
    with pytest.raises(
        hw.DivergedError, match=r"diverged in round (\d+).*learning_rate=10.*try 1[, ]"
    ) as caught:
        run(
            clients,
            model=nn.Linear(3, 1),
            rounds=50,
            loss=square,
            learning_rate=10.0,
            engine=engine,
            local_steps=steps,
            workers=workers,
            progress=done.append,
        )
    assert f"round {len(done) + 1}:" in str(caught.value)
    assert isinstance(caught.value, hw.InputError)


def test_a_run_that_diverges_keeps_what_it_had(tmp_path, monkeypatch):
    """The rounds before are on disk; a projection or another rate starts anew."""
    monkeypatch.setattr("headwater.learning.checkpoint._SECONDS", 0.0)
    with pytest.raises(hw.DivergedError) as caught:
        run(
            [client(1e3 * X, Y.astype(float))],
            model=nn.Linear(3, 1),
            rounds=50,
            learning_rate=10.0,
            loss=lambda out, y: (out[:, 0] - y) ** 2,
            checkpoint=tmp_path,
        )
    last = int(str(caught.value).split("round ")[1].split(":")[0])
    assert len((tmp_path / "rounds.jsonl").read_text().splitlines()) == last - 1


def test_an_input_error_is_a_value_error():
    assert issubclass(hw.InputError, ValueError)
