"""Random bad inputs: options, fleet files and values handed to the library."""

from __future__ import annotations

import random
import shutil
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import torch
from tests.soak.trial import draws, run

import headwater as hw
from headwater.errors import InputError

WORDS = (
    *("", " ", "0", "-1", "1e999", "nan", "inf", "-inf", "0.5", "1/2", "0x10", "1_000", "１"),
    *("9" * 400, "1e-400", "true", "None", "[]", "{}", "../..", "/dev/null", "/", "~", "\x07"),
    *("uniform", "share-2", "share-", "optimal-nan", "optimal--1", "a,b", ",,,", "grid", "0.1,0.1"),
    *("é", "\U0001f40c", "%s", "--", "-", "a" * 5000, "\n", "\ufeff0.5"),
)
RUN_OPTIONS = (
    *("--historical", "--strategies", "--rounds", "--local-steps", "--batch-size", "--seeds"),
    *("--learning-rate", "--ratio", "--out", "--data-dir", "--cores"),
)
TABLE_OPTIONS = ("--historical", "--seeds", "--rates", "--rounds", "--tune-rounds", "--tune-seeds")
PLAN_OPTIONS = ("--ratio", "--rounds", "--bound", "--what-if", "--plot", "--historical", "--seed")
FLEET = b"client,samples,fresh,rate,capacity,count\nserver,5000,no,,,1\nsensor,800,yes,8,16,10\n"
SMALL = ("--rounds", "3", "--seeds", "1", "--learning-rate", "0.1", "--strategies", "uniform")


def trial(number: int) -> tuple[str, str]:
    """One bad input of a random kind; verdict and what it was."""
    draw = draws("inputs", number)
    return draw.choice((_options, _fleet_file, _call, _call, _simulate))(draw)


def _options(draw: random.Random) -> tuple[str, str]:
    """One or two options with strange values, on a command that is small without them."""
    table = ("paper", "table", "--dataset", "synthetic", "--historical", "0.2", "--quick")
    base, options = draw.choice(
        (
            (("run", "synthetic", *SMALL), RUN_OPTIONS),
            ((*table, "--lines", "uniform"), TABLE_OPTIONS),
            (("plan", "fleet.csv", "--ratio", "0.15"), PLAN_OPTIONS),
        )
    )
    given = [w for _ in range(draw.choice((1, 2))) for w in (draw.choice(options), _word(draw))]
    return _command((*base, *given), FLEET)


def _word(draw: random.Random) -> str:
    return draw.choice(WORDS).replace("\x00", "")


def _fleet_file(draw: random.Random) -> tuple[str, str]:
    """A fleet file with some of its bytes or cells exchanged."""
    content = bytearray(FLEET)
    for _ in range(draw.choice((1, 2, 8))):
        place = draw.randrange(len(content))
        piece = draw.choice((draw.randbytes(1), _word(draw).encode(), b",", b'"', b"\n", b";"))
        content[place : place + draw.choice((0, 1, 5))] = piece
    return _command(("plan", "fleet.csv", "--ratio", "0.15"), bytes(content))


def _command(arguments: tuple[str, ...], fleet: bytes) -> tuple[str, str]:
    place = Path(mkdtemp(prefix="soak-"))
    (place / "fleet.csv").write_bytes(fleet)
    ended = run(arguments, place)
    shutil.rmtree(place, ignore_errors=True)
    shown = repr(arguments)[:300] + ("" if fleet == FLEET else f" {fleet!r}")
    return ended.verdict, f"{shown}: {ended.err.strip()[-300:]}"


VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2, 10**400, -(10**30), 0.5, 1.5, -0.0, 5e-324, 1e308, float("nan")),
    *(float("inf"), "0.5", "", b"1", [], [1, 2], [[1], [2, 3]], {}, (), 1j, np.float32(0.2)),
    *(np.int64(3), np.array([]), np.array([1.0, np.nan]), np.array(["a"]), np.zeros((2, 0))),
    *(np.longdouble(1), np.array([1, 2], ">i4"), torch.ones(2), object(), int, len, Ellipsis),
)
CALLS: dict[str, Callable[[Any], object]] = {
    "Constant": lambda v: hw.Constant(v),
    "Poisson": lambda v: hw.Poisson(v),
    "Trace": lambda v: hw.Trace(v),
    "Fifo": lambda v: hw.Fifo(v),
    "Reservoir": lambda v: hw.Reservoir(v),
    "Share": lambda v: hw.Share(v),
    "Optimal": lambda v: hw.Optimal(v),
    "Ball": lambda v: hw.Ball(v),
    "samples": lambda v: hw.optimal_importance(v, [False, True], 0.15),
    "fresh": lambda v: hw.optimal_importance([4, 8], v, 0.15),
    "ratio": lambda v: hw.optimal_importance([4, 8], [False, True], v),
    "bound": lambda v: hw.bound(v, [4, 8], [False, True]),
}


def _call(draw: random.Random) -> tuple[str, str]:
    """A strange value where a number or a list is due."""
    name, value = draw.choice(list(CALLS)), draw.choice(VALUES)
    return _tried(lambda: CALLS[name](value), f"{name}({value!r})")


def _simulate(draw: random.Random) -> tuple[str, str]:
    """A strange setting of a small simulation."""
    x = np.random.default_rng(0).normal(size=(12, 2))
    usual: dict[str, Any] = {
        "model": torch.nn.Linear(2, 2),
        "clients": [hw.Client(x, (x[:, 0] > 0).astype(int))],
        "strategy": hw.Uniform(),
        **{"rounds": 2, "local_steps": 1, "batch_size": None, "learning_rate": 0.1, "seed": 0},
        **{"participation": None, "test_every": None, "engine": None, "workers": 0},
    }
    name, value = draw.choice(list(usual)), draw.choice(VALUES)
    if name in ("rounds", "local_steps") and isinstance(value, int) and value > 10**6:
        value = -1  # a long run is no bad input
    settings = {**usual, name: value}
    return _tried(lambda: hw.simulate(**settings), f"simulate({name}={value!r})")


def _tried(action: Callable[[], object], what: str) -> tuple[str, str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            action()
    except InputError as error:
        return "clear error", f"{what}: {error}"
    except Exception:
        return "traceback", f"{what}: {traceback.format_exc()[-400:]}"
    return "fine", what
