"""``headwater run`` as a user types it: what comes out, what is refused, and that killing it does
no harm."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from headwater.cli.main import main

Answer = tuple[int, str, str]
Command = Callable[..., Answer]
SMALL = (
    "--seeds",
    "1",
    "--rounds",
    "10",
    "--local-steps",
    "1",
    "--learning-rate",
    "0.1",
    "--strategies",
    "uniform,share=0.5",
)


@pytest.fixture
def headwater(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Command:
    """Run the command in this process; returns exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("HEADWATER_DATA", str(tmp_path / "home"))

    def run(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["headwater", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        seen = capfd.readouterr()
        code = end.value.code
        return (code if isinstance(code, int) else 0), seen.out, seen.err

    return run


def refused(answer: Answer, *words: str) -> None:
    """A user's mistake: exit code 2, nothing on standard output, one line that says what is
    wrong."""
    code, out, err = answer
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    for word in words:
        assert word in " ".join(err.split())


def test_json_is_all_that_is_printed_and_what_is_in_the_folder(
    headwater: Command, tmp_path: Path
) -> None:
    code, out, err = headwater("run", "synthetic", *SMALL, "--out", "run", "--json")
    assert code == 0
    summary = json.loads(out)
    assert summary == json.loads((tmp_path / "run" / "results.json").read_text())
    assert [row["strategy"] for row in summary["rows"]] == ["uniform", "share=0.5"]
    assert summary["rows"][1]["historical_share"] == pytest.approx(0.5)
    assert "learning 2/2" in err
    assert (tmp_path / "run" / "accuracy.png").read_bytes().startswith(b"\x89PNG")


def test_a_table_names_every_strategy_and_the_same_command_runs_nothing_again(
    headwater: Command,
) -> None:
    first = headwater("run", "synthetic", *SMALL, "--out", "run")
    again = headwater("run", "synthetic", *SMALL, "--out", "run")
    assert first[:2] == again[:2]
    assert "share=0.5" in first[1]
    assert "learning" not in again[2]


def test_optimal_without_a_ratio_is_estimated(headwater: Command) -> None:
    arguments = (
        "--seeds",
        "1",
        "--rounds",
        "10",
        "--learning-rate",
        "0.1",
        "--strategies",
        "optimal,sharp",
    )
    code, out, _ = headwater("run", "synthetic", *arguments, "--out", "run", "--json")
    assert code == 0
    shares = [row["historical_share"] for row in json.loads(out)["rows"]]
    assert all(0.2 < share <= 1 for share in shares)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("cifar",), ("unknown task 'cifar'", "cifar10")),
        (("synthetic", "--strategies", "unifrom"), ("unknown strategy 'unifrom'", "uniform")),
        (("synthetic", "--strategies", "share=2"), ("share=2",)),
        (("synthetic", "--historical", "1.5"), ("--historical", "1.5")),
        (("synthetic", "--historical", "0.01"), ("historical=0.01", "200 samples")),
        (("synthetic", "--rounds", "0"), ("--rounds", "0")),
        (("synthetic", "--seeds", "0"), ("--seeds", "0")),
        (("synthetic", "--learning-rate", "fast"), ("--learning-rate", "fast")),
        (("synthetic", "--learning-rate", "-1"), ("--learning-rate", "-1")),
        (("synthetic", "--local-steps", "0"), ("local_steps", "0")),
        (("cifar10", "--data-dir", "/no/such/folder"), ("/no/such/folder", "no such folder")),
        (("femnist",), ("femnist/train holds no *.json", "preprocess.sh")),
        (("shakespeare",), ("by_play_and_character holds no *.txt",)),
    ],
)
def test_mistakes_are_named_and_leave_nothing_behind(
    headwater: Command, tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    refused(headwater("run", *arguments, "--out", "run"), *words)
    assert not (tmp_path / "run").exists()


def test_a_truncated_data_file_is_named_with_its_size(headwater: Command, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "cifar-100-binary"
    folder.mkdir(parents=True)
    for name in ("train.bin", "test.bin"):
        (folder / name).write_bytes(bytes(3074 + 5))
    answer = headwater("run", "cifar100", "--data-dir", str(tmp_path / "data"), "--out", "run")
    refused(answer, "train.bin is truncated", "153,700,000 bytes", "3,079 bytes")


def test_a_folder_with_other_settings_is_refused(headwater: Command) -> None:
    assert headwater("run", "synthetic", *SMALL, "--out", "run")[0] == 0
    refused(
        headwater("run", "synthetic", *SMALL, "--out", "run", "--rounds", "11"),
        "rounds: 10 there, 11 now",
        "--out",
    )


def test_a_run_that_diverges_says_so(headwater: Command) -> None:
    arguments = (
        "--seeds",
        "1",
        "--rounds",
        "10",
        "--learning-rate",
        "3e38",
        "--strategies",
        "uniform",
    )
    refused(
        headwater("run", "synthetic", *arguments, "--out", "run"),
        "diverged in round",
        "learning_rate=3e+38",
    )


def start(folder: Path, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    code = "from headwater.cli import main; main()"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", code, "run", "synthetic", "--out", str(folder), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )


def test_a_second_run_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    from headwater.experiments.parallel import alone

    with alone(tmp_path / "run"):
        process = start(tmp_path / "run", *SMALL)
        out, err = process.communicate(timeout=60)
    refused((process.returncode, out, err), "another run is at work there")


def test_a_disk_that_fills_up_is_one_clear_line(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))  # ten rounds fit, sixty do not

    long = (*SMALL, "--rounds", "60")
    process = start(tmp_path / "run", *long, preexec_fn=limit)
    out, err = process.communicate(timeout=60)
    refused((process.returncode, out, err), "same command again")
    assert not list((tmp_path / "run").rglob("result.json"))
    process = start(tmp_path / "run", *long, "--json")
    assert json.loads(process.communicate(timeout=60)[0])["task"] == "synthetic"


def finish(folder: Path, arguments: tuple[str, ...]) -> None:
    """Start until it ends by itself: the workers of a killed run may hold the folder for another
    round."""
    for _ in range(20):
        process = start(folder, *arguments)
        _, err = process.communicate(timeout=120)
        if process.returncode == 0:
            return
        assert "another run is at work" in err
        time.sleep(0.2)
    raise AssertionError("the folder is never let go")


def bits(folder: Path) -> dict[str, Any]:
    """Everything that a run has learned; seconds apart."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".pt":
            found[name] = {k: v.tolist() for k, v in torch.load(path).items()}
        elif path.suffix == ".jsonl":
            found[name] = path.read_text()
        elif path.name == "results.json":
            rows = json.loads(path.read_text())["rows"]
            found[name] = [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
    return found


def test_killed_at_random_moments_it_ends_with_the_same_bits(tmp_path: Path) -> None:
    arguments = (*SMALL, "--seeds", "2", "--rounds", "120")
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    finish(whole, arguments)
    draw = random.Random(4)
    deadline = time.monotonic() + 20
    for _ in range(2):
        process = start(cut, *arguments)
        while (
            not (cut / "cells").exists() and process.poll() is None and time.monotonic() < deadline
        ):
            time.sleep(0.02)  # let it begin
        time.sleep(draw.uniform(0.05, 1.0))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    finish(cut, arguments)
    assert bits(cut) == bits(whole)
