"""``headwater run`` as a user types it: what comes out, what is refused, and that killing it does
no harm."""

from __future__ import annotations

import json
import os
import random
import re
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
from headwater.experiments.run_log import RunLog

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
    "uniform,share-0.5",
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
    assert [row["strategy"] for row in summary["rows"]] == ["uniform", "share-0.5"]
    assert summary["rows"][1]["historical_share"] == pytest.approx(0.5)
    assert "learning 2/2" in err
    assert (tmp_path / "run" / "accuracy.png").read_bytes().startswith(b"\x89PNG")


def test_a_table_names_every_strategy_and_the_same_command_runs_nothing_again(
    headwater: Command,
) -> None:
    first = headwater("run", "synthetic", *SMALL, "--out", "run")
    again = headwater("run", "synthetic", *SMALL, "--out", "run")
    assert first[:2] == again[:2]
    assert "share-0.5" in first[1]
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
        (("synthetic", "--strategies", "share=2"), ("Share", "2")),
        (("synthetic", "--historical", "1.5"), ("--historical", "1.5")),
        (("synthetic", "--historical", "0.01"), ("historical=0.01", "200 samples")),
        (("synthetic", "--rounds", "0"), ("--rounds", "0")),
        (("synthetic", "--seeds", "0"), ("--seeds", "0")),
        (("synthetic", "--seeds", "1000000000"), ("--seeds", "1000000000", "10,000")),
        (("synthetic", "--rounds", "1000000000000"), ("--rounds", "1,000,000,000")),
        (("synthetic", "--cores", "0"), ("--cores", "0")),
        (("synthetic", "--learning-rate", "fast"), ("--learning-rate", "fast")),
        (("synthetic", "--learning-rate", "-1"), ("--learning-rate", "-1")),
        (("synthetic", "--local-steps", "0"), ("--local-steps", "0")),
        (("synthetic", "--batch-size", "-1"), ("--batch-size", "-1", "0 for the whole memory")),
        (("synthetic", "--ratio", "-1"), ("--ratio", "-1")),
        (("synthetic", "--ratio", "nan"), ("--ratio", "nan")),
        (("synthetic", "--ratio", "1", "--strategies", "uniform"), ("--ratio", "'optimal'")),
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
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = ["-m", "headwater", "run", "synthetic", "--out", str(folder), *arguments]
    return subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )


def test_a_second_run_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    from headwater.experiments.run_folder import alone

    with alone(tmp_path / "run"):
        process = start(tmp_path / "run", *SMALL)
        out, err = process.communicate(timeout=60)
    refused((process.returncode, out, err), "another run is at work there", f"kill {os.getpid()}")


def test_a_disk_that_fills_up_is_one_clear_line(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))  # ten rounds fit, sixty do not

    long = (*SMALL, "--rounds", "60")
    process = start(tmp_path / "run", *long, preexec_fn=limit)
    out, err = process.communicate(timeout=60)
    refused((process.returncode, out, err), "same command again")
    process = start(tmp_path / "run", *long, "--json")
    assert json.loads(process.communicate(timeout=60)[0])["task"] == "synthetic"


def finish(folder: Path, arguments: tuple[str, ...]) -> None:
    """Start it and let it end by itself; a killed run before it must not be in its way."""
    process = start(folder, *arguments)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err


def bits(folder: Path) -> dict[str, Any]:
    """Everything that a run has learned; seconds apart."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*.pt")):
        found[path.relative_to(folder).as_posix()] = {
            k: v.tolist() for k, v in torch.load(path).items()
        }
    for line in RunLog(folder / "runs.jsonl").read("run"):
        found[line["id"]] = {k: v for k, v in line.items() if "seconds" not in k}
    rows = json.loads((folder / "results.json").read_text())["rows"]
    found["rows"] = [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
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
            not (cut / "work").exists() and process.poll() is None and time.monotonic() < deadline
        ):
            time.sleep(0.02)  # let it begin
        time.sleep(draw.uniform(0.05, 1.0))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    finish(cut, arguments)
    assert bits(cut) == bits(whole)


# ---------------------------------------------------------------- killed, stopped, out of room


def children(pid: int) -> list[int]:
    """All processes that have come from one, as far as they are alive."""
    try:
        own = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []
    return [int(child) for child in own] + [g for child in own for g in children(int(child))]


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    latest = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < latest, "it never came"
        time.sleep(0.02)


LONG = (*SMALL, "--rounds", "3000", "--cores", "2", "--strategies", "uniform,share-0.5,fresh")


def test_a_parent_killed_while_a_worker_is_idle_leaves_the_folder_free(tmp_path: Path) -> None:
    """Two of three runs done: one worker learns the third, the other has nothing to do."""
    folder = tmp_path / "run"
    process = start(folder, *LONG)
    log = RunLog(folder / "runs.jsonl")
    until(lambda: len(log.read("run")) == 2, 120)
    workers = children(process.pid)
    process.kill()
    process.communicate()
    until(lambda: not any(Path(f"/proc/{pid}/status").exists() for pid in workers), 10)
    finish(folder, LONG)
    assert len(log.read("run")) == 3


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_says_where_and_leaves_nothing_behind(
    tmp_path: Path, number: int, code: int
) -> None:
    folder = tmp_path / "run"
    endless = (*SMALL, "--rounds", "30000", "--cores", "2")
    process = start(folder, *endless)
    until(lambda: len(list(folder.rglob("rounds.jsonl"))) == 2)
    time.sleep(1.0)
    workers = children(process.pid)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert "Traceback" not in err
    assert "stopped after round" in err
    assert err.strip().endswith("0 of 2 finished; the same command goes on")
    assert not any(Path(f"/proc/{pid}/status").exists() for pid in workers)
    assert not list(tmp_path.rglob(".*.????????"))


@pytest.mark.parametrize("after", [0.05, 1.0])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_in_the_first_seconds_are_one_line_too(
    tmp_path: Path, number: int, code: int, after: float
) -> None:
    process = start(tmp_path / "run", *SMALL, "--rounds", "30000")
    # Python itself has to be there: before its first line nobody can answer
    until(lambda: b"headwater" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
    until(lambda: _catches(process.pid))
    time.sleep(after)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in err
    assert re.fullmatch(r"stopped .*\n", err), err


def _catches(pid: int, number: int = signal.SIGTERM) -> bool:
    """Whether the process has a handler of its own for TERM: Python has one for Ctrl-C."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = int(re.search(r"SigCgt:\s*([0-9a-f]+)", status)[1], 16)  # type: ignore[index]
    return bool(caught >> (number - 1) & 1)


def test_a_killed_worker_is_one_line_and_the_same_command_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start(folder, *LONG)
    until(lambda: len(list(folder.rglob("rounds.jsonl"))) == 2)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    refused((process.returncode, out, err), "its process was killed", "the same command goes on")
    assert len([line for line in err.splitlines() if line.startswith("error")]) == 1
    finish(folder, LONG)


def test_out_naming_a_file_is_one_line(headwater: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    refused(headwater("run", "synthetic", *SMALL, "--out", "file"), "--out", "file is a file")
    refused(headwater("run", "synthetic", *SMALL, "--out", "file/below"), "file is a file")
    assert (tmp_path / "file").read_text() == "mine"


def test_too_many_open_files_is_one_line(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))

    process = start(tmp_path / "run", *SMALL, "--cores", "40", "--seeds", "20", preexec_fn=limit)
    out, err = process.communicate(timeout=120)
    refused((process.returncode, out, err), "Too many open files", "ulimit -n")


def test_no_memory_is_one_line(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (700 << 20, 700 << 20))

    process = start(
        tmp_path / "run", *SMALL, "--rounds", "1000000000", "--cores", "1", preexec_fn=limit
    )
    out, err = process.communicate(timeout=120)
    refused((process.returncode, out, err), "memory")


def test_a_damaged_log_is_one_line(headwater: Command, tmp_path: Path) -> None:
    assert headwater("run", "synthetic", *SMALL, "--out", "run")[0] == 0
    file = tmp_path / "run" / "runs.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"accuracy": 0.', b'"accuracy": 1.', 1))
    refused(headwater("run", "synthetic", *SMALL, "--out", "run"), "runs.jsonl: line", "damaged")


def test_another_ratio_in_the_same_folder_gives_its_own_numbers(headwater: Command) -> None:
    optimal = (*SMALL, "--strategies", "optimal", "--out", "run", "--json")
    shares = []
    for ratio in ("0.01", "100", "0.01"):
        code, out, _ = headwater("run", "synthetic", *optimal, "--ratio", ratio)
        assert code == 0
        shares.append(json.loads(out)["rows"][0]["historical_share"])
    assert shares[0] > 0.9
    assert shares[1] < 0.3
    assert shares[2] == shares[0]


def test_rates_that_differ_in_the_ninth_digit_are_two_runs(
    headwater: Command, tmp_path: Path
) -> None:
    for rate in ("0.1", "0.100000001"):
        assert (
            headwater("run", "synthetic", *SMALL, "--learning-rate", rate, "--out", "run")[0] == 0
        )
    assert len(RunLog(tmp_path / "run" / "runs.jsonl").read("run")) == 4


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headwater", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("headwater ")


@pytest.mark.parametrize("what", ["in its making", "in its split"])
def test_a_task_of_one_s_own_that_raises_is_one_line_with_its_place(
    tmp_path: Path, what: str
) -> None:
    making = 'raise KeyError("no such column")' if what == "in its making" else "pass"
    (tmp_path / "own_task.py").write_text(
        "from headwater.experiments.tasks.synthetic import Synthetic\n"
        "class Mine(Synthetic):\n"
        "    def __init__(self):\n"
        f"        {making}\n"
        "    def split(self, historical, rounds, seed):\n"
        '        raise KeyError("no such column")\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "headwater", "run", "own_task:Mine", "--seeds", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 2
    assert "own_task.py, line" in done.stderr
    assert "KeyError: 'no such column'" in done.stderr
    assert "Traceback" not in done.stderr


def write_devices(folder: Path, header: str = "device,at,temp,fault") -> None:
    """Three devices, one row each an hour: two are streams that hold one row in round 1."""
    rows = [
        f"{d},{hour},{(hour * 7 + k) % 11},{hour % 2}"
        for hour in range(60)
        for k, d in enumerate("abc")
    ]
    if header.startswith(","):  # as frames are written with their index
        rows = [f"{number},{row}" for number, row in enumerate(rows)]
    (folder / "devices.csv").write_text("\n".join([header, *rows, ""]))


OWN = ("devices.csv", "--client", "device", "--time", "at", "--label", "fault")
QUICK = ("--seeds", "1", "--learning-rate", "0.1", "--rounds", "50", "--out", "run")


def test_a_small_fleet_gets_its_table_without_what_cannot_be_measured(
    headwater: Command, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_devices(tmp_path)
    code, out, err = headwater("run", *OWN, *QUICK)
    assert code == 0
    assert "devices: 180 rows of 3 clients (device), 50 rounds; features: temp; label fault" in err
    assert "optimal" in out
    assert "remembered" not in out
    assert "remembered is left out: 1 client holds more than one sample" in caplog.text


def test_a_strategy_that_cannot_be_measured_is_refused_before_any_run(
    headwater: Command, tmp_path: Path
) -> None:
    write_devices(tmp_path)
    answer = headwater("run", *OWN, *QUICK, "--strategies", "uniform,remembered")
    refused(answer, "--strategies: remembered: 1 client holds", "remembered-0.1")
    assert not (tmp_path / "run").exists()
    code, out, _ = headwater("run", *OWN, *QUICK, "--strategies", "uniform,remembered-0.1")
    assert code == 0
    assert "remembered-0.1" in out


def test_a_nameless_column_is_no_feature(
    headwater: Command, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_devices(tmp_path, ",device,at,temp,fault")
    code, _, err = headwater("run", *OWN, *QUICK, "--strategies", "uniform")
    assert code == 0
    assert "a column without a name" in caplog.text
    assert "features: temp;" in err


def test_whole_numbers_are_forecast_if_it_is_said(headwater: Command, tmp_path: Path) -> None:
    write_devices(tmp_path)
    code, out, err = headwater("run", *OWN, *QUICK, "--strategies", "uniform", "--regression")
    assert code == 0
    assert "label fault: numbers" in err
    assert "Mean abs. error" in out
