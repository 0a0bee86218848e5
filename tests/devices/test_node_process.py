"""The resident process: started, asked, stopped, killed; and what it says about its settings."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys

import numpy as np
import pytest
from node_process import running, write_toml
from nodes import node_settings, samples, write_csv

import headwater as hw
from headwater.devices.node.server import Server
from headwater.devices.node.summary import summary
from headwater.devices.settings import node_file
from headwater.devices.wire import Frame, ask

BY_ROUNDS = '[source]\nkind = "csv"\npath = "s.csv"\narrivals = { kind = "constant", rate = 4 }'


@pytest.fixture
def toml(tmp_path):
    write_csv(tmp_path / "s.csv", *samples(40))
    return write_toml(tmp_path, BY_ROUNDS)


def order(round, parameters):
    header = {"do": "train", "run": "r", "round": round, "client": 0, "learning_rate": 0.1}
    return Frame(header, {"parameters": parameters})


def test_a_node_trains_stops_at_term_and_goes_on(toml):
    parameters = np.full(12, 0.5, np.float32)
    with running(toml) as node:
        assert node.describe()["declared"] == {"kind": "constant", "rate": 4.0, "samples": 40}
        reply = ask(node.socket, order(3, parameters), timeout=60)
        assert reply.header["arrived"] == 12
        assert reply.arrays["move"].shape == (12,)
        assert node.end(signal.SIGTERM) == 0
        assert not node.socket.exists()
    with running(toml) as node:
        again = ask(node.socket, order(3, parameters), timeout=60)
        np.testing.assert_array_equal(again.arrays["move"], reply.arrays["move"])
        assert node.describe()["arrived"] == 12


def test_the_first_round_is_as_quick_as_the_others(toml):
    """PyTorch's own start is over before the node says that it is ready."""
    parameters = np.full(12, 0.5, np.float32)
    with running(toml) as node:
        for round in (1, 2, 3, 4):
            ask(node.socket, order(round, parameters), timeout=60)
        node.wait_for("trained", 4)
        messages = [entry["message"] for entry in node.entries]
        assert messages.index("warm") < messages.index("ready")
        first, *others = [e["cpu"] for e in node.entries if e["message"] == "trained"]
        assert first < 10 * max(others) + 0.1  # cold it takes more than a second of CPU time


def test_a_node_that_was_killed_goes_on(toml):
    parameters = np.full(12, 0.5, np.float32)
    with running(toml) as node:
        reply = ask(node.socket, order(3, parameters), timeout=60)
        assert node.end(signal.SIGKILL) == -signal.SIGKILL
    with running(toml) as node:  # its socket is still there, and is replaced
        again = ask(node.socket, order(3, parameters), timeout=60)
        np.testing.assert_array_equal(again.arrays["move"], reply.arrays["move"])


def test_a_second_node_is_told_that_there_is_one(toml):
    with running(toml) as node:
        command = [sys.executable, "-m", "headwater", "node", str(toml)]
        second = subprocess.run(command, capture_output=True, text=True, check=False)
        assert second.returncode == 2
        assert f"process {node.process.pid} (since" in second.stderr
        assert node.describe()["client"] == "a"


def test_the_socket_is_for_the_owner_only(toml):
    with running(toml) as node:
        assert stat.S_IMODE(node.socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(node.socket.parent.stat().st_mode) == 0o700


def test_other_users_are_refused(tmp_path, monkeypatch):
    """The kernel tells whose process it is; here the server believes to be somebody else."""
    server = Server(tmp_path / "run" / "s", lambda _: Frame({"secret": 1}))
    server.start()
    assert ask(tmp_path / "run" / "s", Frame({}), timeout=60).header == {"secret": 1}
    me = os.getuid()
    monkeypatch.setattr("headwater.devices.node.server.os.getuid", lambda: me + 1)
    with pytest.raises(ConnectionError):
        ask(tmp_path / "run" / "s", Frame({}), timeout=60)
    server.close()


def test_an_open_folder_for_the_socket_is_refused(tmp_path):
    tmp_path.chmod(0o755)
    with pytest.raises(hw.InputError, match="chmod 700"):
        Server(tmp_path / "s", lambda frame: frame)


def test_a_path_that_no_socket_can_have_is_refused(tmp_path):
    with pytest.raises(hw.InputError, match="at most 107 bytes"):
        Server(tmp_path / ("x" * 120), lambda frame: frame)


def test_a_request_that_is_none_or_fails_does_not_end_the_server(tmp_path):
    def answer(frame):
        raise ZeroDivisionError("feature 17.25")

    server = Server(tmp_path / "run" / "s", answer)
    server.start()
    with socket.socket(socket.AF_UNIX) as rude:
        rude.connect(str(tmp_path / "run" / "s"))
        rude.sendall(b"\xff" * 64)
        assert b"bad request" in rude.recv(4096)
    reply = ask(tmp_path / "run" / "s", Frame({}), timeout=60)
    assert reply.header["error"] == "internal"
    assert "17.25" not in reply.header["message"]  # an error's words may have a sample in them
    server.close()


@pytest.mark.parametrize("numbers", [300, 3_000_000])  # more than the socket's buffer holds, too
def test_who_asks_for_too_much_is_told_which_setting_allows_it(tmp_path, numbers):
    server = Server(tmp_path / "run" / "s", lambda frame: frame, limit=1024)
    server.start()
    try:
        frame = Frame({"do": "train"}, {"parameters": np.zeros(numbers, np.float32)})
        reply = ask(tmp_path / "run" / "s", frame, timeout=30)
    finally:
        server.close()
    assert reply.header["error"] == "bad request"
    said = f"arrays of {4 * numbers} bytes; limits.request_bytes = 1024 in the node's settings; "
    assert reply.header["message"].startswith(said)


def test_check_says_what_would_run_and_touches_nothing(toml):
    command = [sys.executable, "-m", "headwater", "node", str(toml), "--check"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for words in ("Fifo(capacity=40)", "'samples': 40", "12 parameters", "node.sock", "off"):
        assert words in said
    assert not (toml.parent / "n").exists()


def test_the_example_runs_as_it_is(tmp_path):
    command = [sys.executable, "-m", "headwater", "node", "--example"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (tmp_path / "NODE.toml").write_text(said)
    settings = node_file.read(tmp_path / "NODE.toml")
    assert settings.samples.fields == ("temperature", "sensor.humidity")
    assert settings.folder == tmp_path / "station-3"
    assert "lines: path -" in summary(settings)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ('client = "a"', "", "client: Field required"),
        (
            'client = "a"',
            'client = "a"\nclinet = 1',
            "clinet: there is no such setting; did you mean client",
        ),
        ("capacity = 40", "capacity = 0", "memory.capacity: .*greater than or equal to 1; got 0"),
        ("capacity = 40", "", "memory: capacity: rule 'fifo' needs a capacity"),
        ('rule = "fifo"', 'rule = "lifo"', "memory: rule: keep, fifo, reservoir .*'lifo'"),
        ("rate = 4", "rate = -4", r"source.arrivals.rate: .*greater than 0; got -4"),
        ('kind = "csv"', 'kind = "cvs"', "source: kind is one of 'csv', .*; got 'cvs'"),
        ("capacity = 40", "capcity = 40", "memory.capcity: .* did you mean capacity"),
        ("capacity = 40", "frobnicate = 40", "memory.frobnicate: there is no such setting; got 40"),
        ('rule = "fifo"', 'rule = "a:b"', "memory: capacity: rule 'a:b' takes arguments"),
        ('arrivals = { kind = "constant", rate = 4 }', "", "exactly one of arrivals"),
        ("classes = 3", "classes = 1", "samples.classes: "),
        ("classes = 3", "classes = 3\nlate_labels = 5", "samples: id: late labels"),
        ("classes = 3", "classes = 3\nscaling = {d = {mean = 1}}", r"scaling: \['d'\] are not"),
        ("classes = 3", "classes = 3\nscaling = {a = {scale = 0}}", "scaling.a: scale: .* not 0"),
        ("[log]", "[log", "not TOML"),
        ("[log]", "x = " + "[" * 5000, "not TOML"),
    ],
)
def test_mistakes_are_named_as_in_the_file(toml, before, after, says):
    text = toml.read_text()
    assert before in text
    toml.write_text(text.replace(before, after, 1))
    with pytest.raises(hw.InputError, match=says) as caught:
        node_file.read(toml)
    assert str(toml) in str(caught.value)


def test_a_mistake_is_one_line_and_exit_code_2(tmp_path):
    command = [sys.executable, "-m", "headwater", "node", str(tmp_path / "none.toml")]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 2
    assert "there is no such file" in said.stderr
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model": {"kind": "python", "make": "nowhere:make"}}, "model.make: cannot import"),
        ({"model": {"kind": "python", "make": "math:nothing"}}, "no 'nothing'"),
        ({"model": {"kind": "python", "make": "builtins:dict"}}, "gives a dict, not a torch"),
        ({"model": {"loss": "hinge"}}, "model.loss: cross_entropy, squared_error"),
        ({"memory": {"rule": "builtins:dict"}}, "needs a property capacity"),
        ({"source": {"kind": "lines", "path": "/nowhere"}}, "/nowhere is not there"),
        ({"source": {"kind": "lines", "path": "/tmp"}}, "source.path: /tmp is a folder"),
        ({"source": {"kind": "csv", "path": "/nowhere", "per_second": 1}}, "No such file"),
        ({"source": {"kind": "csv", "path": "/tmp", "per_second": 1}}, "Is a directory"),
        ({"source": {"kind": "python", "call": "math:pi"}}, "cannot be called"),
    ],
)
def test_what_cannot_be_run_is_found_before_it_is(tmp_path, changes, says):
    from headwater.devices.node.summary import summary

    with pytest.raises(hw.InputError, match=says):
        summary(node_settings(tmp_path, **changes))


@pytest.mark.parametrize("header", ["a,b,label", "a;b;c;label", ""])
def test_a_csv_file_without_the_fields_is_refused(tmp_path, header):
    from headwater.devices.node.summary import summary

    (tmp_path / "s.csv").write_text(f"{header}\n1,2,3\n")
    source = {"kind": "csv", "path": tmp_path / "s.csv", "per_second": 1}
    with pytest.raises(hw.InputError, match=r"s.csv: its first line names no field '.*it has: "):
        summary(node_settings(tmp_path, source=source))


def test_a_folder_that_must_not_be_written_to_is_found_by_check(tmp_path, monkeypatch):
    from headwater.devices.node.summary import summary

    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    with pytest.raises(hw.InputError, match=r"folder: .* must not be written to"):
        summary(node_settings(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(hw.InputError, match=r"folder: .*file is a file"):
        summary(node_settings(tmp_path / "file"))


def test_a_model_that_does_not_take_the_samples_is_refused(tmp_path):
    from headwater.devices.node.summary import summary

    model = {"kind": "python", "make": "torch.nn:Linear"}
    wrong = {**model, "arguments": {"in_features": 4, "out_features": 3}}
    with pytest.raises(hw.InputError, match=r"features \(2, 3\)"):
        summary(node_settings(tmp_path, model=wrong))
    few = {**model, "arguments": {"in_features": 3, "out_features": 2}}
    with pytest.raises(hw.InputError, match="2 classes"):
        summary(node_settings(tmp_path, model=few))
    right = {**model, "arguments": {"in_features": 3, "out_features": 3}}
    assert "12 parameters" in summary(node_settings(tmp_path, model=right))
