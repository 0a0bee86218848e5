"""A small simulation with all that a run can keep, and kills of the program that runs it."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import torch
from tests.soak.trial import draws, tried, warm

import headwater as hw
from headwater.learning import checkpoint

ROUNDS = 40


def trial(number: int) -> tuple[str, str]:
    """Kill a program in the midst of its simulation a few times, then let another end it."""
    warm()
    draw = draws("programs", number)
    place = Path(mkdtemp(prefix="soak-"))
    told = []
    for _ in range(draw.choice((1, 2, 3))):
        after = draw.random() * _whole()[1]
        _killed(place, after)
        told.append(f"kill -9 after {after:.3f} s")
    verdict, why = tried(lambda: facts(simulated(place, rounds=ROUNDS)), "simulate", _whole()[0])
    if verdict == "clear error":
        verdict = "stuck"  # nothing was damaged: the same program has to go on
    if verdict == "fine":
        shutil.rmtree(place)
    return verdict, f"{', '.join(told)}: {why}"


def _killed(place: Path, after: float) -> None:
    pid = os.fork()
    if pid == 0:
        checkpoint._SECONDS = 0.0  # a state after every round: twice as many writes as rounds
        simulated(place, rounds=ROUNDS)
        os._exit(0)
    time.sleep(after)
    os.kill(pid, signal.SIGKILL)  # one that has ended is still there until it is waited for
    os.waitpid(pid, 0)


@cache
def _whole() -> tuple[object, float]:
    """What the simulation gives if nothing disturbs it, and the seconds that it takes then."""
    seconds = []
    for _ in range(3):
        began = time.monotonic()
        found = facts(simulated(Path(mkdtemp(prefix="soak-")), rounds=ROUNDS))
        seconds.append(time.monotonic() - began)
    return found, 2 * min(seconds)  # a state after every round takes its time


def facts(found: hw.Run) -> object:
    """All that a run says, to the last bit."""
    score = None if found.score is None else {k: v.tolist() for k, v in found.score.values.items()}
    state = found.state
    vectors = [v.tolist() for v in (state.parameters, state.average, found.ledger.client_shares)]
    return [repr(found.history), state.round, state.weight, vectors, score]


def simulated(
    folder: Path | None = None,
    see: Callable[[hw.Record], object] | bool = False,
    rounds: int = 16,
) -> hw.Run:
    """A small run with all that a run can keep: tests, momentum, one record per round."""
    x = np.random.default_rng(0).normal(size=(40, 2))
    y = (x[:, 0] > 0).astype(int)
    model = torch.nn.Linear(2, 2)
    with torch.no_grad():
        model.weight.fill_(0.1)
        model.bias.zero_()
    stream = hw.Client(x[8:], y[8:], arrivals=hw.Constant(2), memory=hw.Fifo(4))
    return hw.simulate(
        model,
        [hw.Client(x[:8], y[:8]), stream],
        rounds=rounds,
        test=(x, y),
        test_every=2,
        server=hw.Momentum(0.5),
        checkpoint=folder,
        progress=see,
        workers=0,
    )
