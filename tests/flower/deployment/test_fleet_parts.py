"""A fleet's folder, certificates, broker, page and view, without the rest of it."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from cryptography.x509 import load_pem_x509_certificate

from headwater.devices.settings.node_file import read
from headwater.errors import InputError
from headwater.flower.checkpoint import Checkpoint
from headwater.flower.deployment import broker, certificates, processes
from headwater.flower.deployment.certificates import make_node_key, make_server_files, renew
from headwater.flower.deployment.layout import Fleet, Learning, make_private, prepare
from headwater.flower.deployment.page import serve_page
from headwater.flower.deployment.streams import AHEAD, BAD_AIR, air_quality, from_csv
from headwater.flower.deployment.superlink import answers, free_port
from headwater.flower.deployment.view import snapshot
from headwater.flower.journal import Entry
from headwater.flower.roster import Roster, Standing
from headwater.flower.state import State


@pytest.fixture
def fleet(tmp_path):
    streams = air_quality(3)
    fleet = Fleet(tmp_path, streams.clients, streams.clients[:1], learning=Learning(rounds=7))
    prepare(fleet, streams)
    return fleet


def test_the_streams_are_the_stations_hours_with_what_came_later():
    from headwater.experiments.data.air import load_air

    streams, air = air_quality(2), load_air()
    assert streams.clients == ("Aotizhongxin", "Changping")
    station, hour = 1, 100  # by hand, from the data: the row that has this hour's values
    pm25, later = air.pm25[station, hour], air.pm25[station, hour + AHEAD]
    row = np.array([np.log1p(pm25), air.temperature[station, hour], air.pressure[station, hour]])
    (place,) = np.flatnonzero((streams.rows[station][:, :3] == row).all(axis=1))
    assert streams.rows[station][place, -1] == (later > BAD_AIR)
    assert np.isfinite(streams.rows[station]).all()


def test_a_csv_of_ones_own(tmp_path):
    path = tmp_path / "rooms.csv"
    path.write_text("room,light,note,busy\na,1.5,x,no\nb,2,y,yes\na,3,z,yes\n")
    streams = from_csv(path, "room", "busy", most=5)
    assert (streams.features, streams.classes, streams.clients) == (
        ("light",),
        ("no", "yes"),
        ("a", "b"),
    )
    np.testing.assert_array_equal(streams.rows[0], [[1.5, 0], [3, 1]])
    with pytest.raises(InputError, match="no column 'house'; there are room, light"):
        from_csv(path, "house", "busy", most=5)
    with pytest.raises(InputError, match="--csv"):
        from_csv(tmp_path / "nothing.csv", "room", "busy", most=5)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["../../evil"], "can be called '../../evil'; letters, digits"),
        (["/evil"], "can be called '/evil'"),
        ([".."], "can be called '..'"),
        (["+"], "can be called '+'"),
        (["#"], "can be called '#'"),
        (["a:b"], "can be called 'a:b'"),
        (["-a"], "can be called '-a'"),
        (["a "], "can be called 'a '"),
        ([""], "can be called ''"),
        (["feeder"], "'feeder' is taken by the fleet itself"),
        (["a-test", "a"], "'a-test' is taken"),
        (["a.toml", "a"], "'a.toml' is taken"),
        (["a.pub", "a"], "'a.pub' is taken"),
        (["a.registered", "a"], "'a.registered' is taken"),
    ],
)
def test_a_name_that_would_be_more_than_a_name_is_refused(tmp_path, names, said):
    path = tmp_path / "rooms.csv"
    rows = "".join(f"{name},{k},{k}\n" for name in names for k in range(2))
    path.write_text("room,light,busy\n" + rows)
    with pytest.raises(InputError) as found:
        from_csv(path, "room", "busy", most=5)
    assert said in str(found.value)
    assert str(found.value).startswith(f"{path}, column 'room': ")


def test_ordinary_names_may_be_clients(tmp_path):
    path = tmp_path / "rooms.csv"
    path.write_text("room,light,busy\nHörsaal 3,1,0\ngate-7@x.org,2,1\nload-test,3,1\n")
    assert from_csv(path, "room", "busy", most=5).clients[2] == "load-test"


def test_the_nodes_files_are_ones_that_a_node_takes(fleet):
    old, stream = (read(fleet.node_file(name)) for name in fleet.clients[:2])
    assert (old.memory.rule, old.source.arrivals.kind) == ("keep", "once")
    assert (stream.memory.capacity, stream.source.kind, stream.source.tls) == (128, "mqtt", True)
    assert stream.socket_path == fleet.socket(fleet.clients[1])
    assert Fleet.load(fleet.folder) == fleet
    for secret in ("fleet.json", f"nodes/{fleet.clients[1]}.toml", "tls/server.key"):
        assert (fleet.folder / secret).stat().st_mode & 0o077 == 0


def mode(path):
    return path.stat().st_mode & 0o777


def test_a_fleets_folder_is_its_owners_alone(tmp_path):
    streams = air_quality(1)
    new, empty, partly = (tmp_path / name for name in ("a", "b", "c"))
    empty.mkdir(mode=0o755)
    partly.mkdir(mode=0o700)  # as one that was killed while it was written leaves it
    (partly / "data").mkdir()
    for folder in (new, empty, partly):
        prepare(Fleet(folder, streams.clients), streams)
        assert mode(folder) == 0o700
    new.chmod(0o755)  # as fleets once were
    make_private(new)
    assert mode(new) == 0o700


def test_a_folder_with_other_things_in_it_is_neither_closed_nor_used():
    streams = air_quality(1)
    # Sockets have short paths: pytest's own folders are too deep for them.
    with tempfile.TemporaryDirectory(prefix="hw-shared-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "letter.txt").write_text("of somebody")
        with pytest.raises(InputError, match=r"--folder .*shared.*: .* chmod 700"):
            prepare(Fleet(folder, streams.clients), streams)
        assert mode(folder) == 0o755
        assert [entry.name for entry in folder.iterdir()] == ["letter.txt"]


def test_a_certificate_is_good_for_this_machine_and_for_no_other(tmp_path):
    files = make_server_files(tmp_path)
    authority = load_pem_x509_certificate(files.authority.read_bytes())
    server = load_pem_x509_certificate(files.certificate.read_bytes())
    server.verify_directly_issued_by(authority)
    context = ssl.create_default_context(cafile=str(files.authority))
    context.load_cert_chain(files.certificate, files.key)
    assert not list(tmp_path.glob("ca.key"))


@pytest.mark.parametrize(("days", "anew"), [(6, True), (8, False)])
def test_certificates_that_end_soon_are_made_anew(tmp_path, monkeypatch, days, anew):
    monkeypatch.setattr(certificates, "_DAYS", days)
    files = make_server_files(tmp_path)
    monkeypatch.undo()
    before = files.certificate.read_bytes()
    renew(files)
    assert (files.certificate.read_bytes() != before) == anew
    context = ssl.create_default_context(cafile=str(files.authority))
    context.load_cert_chain(files.certificate, files.key)  # they belong together
    renewed = load_pem_x509_certificate(files.certificate.read_bytes())
    renewed.verify_directly_issued_by(load_pem_x509_certificate(files.authority.read_bytes()))
    assert anew == (renewed.not_valid_after_utc > datetime.now(UTC) + timedelta(days=365))


def test_a_nodes_key_is_one_that_flower_reads(tmp_path):
    path = make_node_key(tmp_path / "node")
    key = load_ssh_private_key(path.read_bytes(), None)
    public = path.with_name("node.pub").read_text()
    assert public.startswith("ecdsa-sha2-nistp384 ")
    assert key.curve.name == "secp384r1"
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.skipif(broker.find() is None, reason="mosquitto is not installed")
def test_a_client_reads_its_own_topic_only_and_strangers_nothing(fleet):
    import paho.mqtt.client as mqtt
    from paho.mqtt.enums import CallbackAPIVersion

    from headwater.flower.deployment.feeder import connect

    broker.write_configuration(fleet)
    broker.start(fleet)
    heard, refused = [], []
    try:
        name, other = fleet.streams
        reader = mqtt.Client(CallbackAPIVersion.VERSION2)
        password = (fleet.folder / "broker" / f"{name}.password").read_text()
        reader.username_pw_set(name, password)
        reader.tls_set_context(ssl.create_default_context(cafile=fleet.server_files.authority))
        reader.on_message = lambda client, data, message: heard.append(message.topic)
        subscribed = []
        reader.on_subscribe = lambda *_: subscribed.append(1)
        reader.connect("127.0.0.1", fleet.broker_port)
        reader.loop_start()
        reader.subscribe("streams/#", 1)
        _wait(lambda: subscribed)
        feeder = connect(fleet)
        feeder.loop_start()
        for topic in (f"streams/{other}", f"streams/{name}"):
            feeder.publish(topic, b"{}", qos=1).wait_for_publish(10)
        _wait(lambda: heard)
        stranger = mqtt.Client(CallbackAPIVersion.VERSION2)
        stranger.tls_set_context(ssl.create_default_context(cafile=fleet.server_files.authority))
        stranger.on_connect = lambda c, d, f, reason, p: refused.append(reason.is_failure)
        stranger.connect("127.0.0.1", fleet.broker_port)
        stranger.loop_start()
        _wait(lambda: refused)
        for client in (reader, feeder, stranger):
            client.loop_stop()
    finally:
        processes.end(fleet.folder)
    assert heard == [f"streams/{name}"]
    assert refused[0]


def _wait(ready, seconds=20):
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def played(fleet):
    """A round and a test, as the server writes them."""
    roster = Roster(
        Standing(name, m, 40 + m, 4, 128, "Fifo", 1.0, False, seen=time.time())
        for m, name in enumerate(fleet.clients)
    )
    entry = Entry(
        round=3,
        time=time.time(),
        seconds=6.5,
        share=1.0,
        move=0.1,
        client=[0, 1, 2],
        planned=[0.5, 0.3, 0.2],
        counted=[0.5, 0.0, 0.2],
        held=[4, 4, 4],
        arrived=[40, 41, 42],
        drawn=[1, 0, 1],
        refused={"1": "no answer"},
        metrics={
            "prequential-count": 10,
            "prequential-recent_loss": 0.4,
            "prequential-recent_metric": 0.8,
        },
    )
    store = Checkpoint(fleet.folder / "run", "x")
    store.folder.mkdir()
    state = State(3, np.zeros(2, np.float32), np.zeros(2, np.float32), 1.0)
    store.save(state, roster, entry)
    store.note_test(3, {"count": 50, "metric": 0.75})


def test_a_snapshot_says_who_counts_how_much(fleet):
    assert snapshot(fleet)["round"] == 0
    played(fleet)
    now = snapshot(fleet)
    assert (now["round"], now["rounds"], now["test"]["metric"]) == (3, 7, 0.75)
    first, second, _ = now["clients"]
    assert (first["arrived"], first["held"], first["share"]) == (40, 4, 0.5)
    assert (second["counted"], second["refused"]) == (0.0, "no answer")
    assert now["history"] == [{"round": 3, "count": 10, "recent_loss": 0.4, "recent_metric": 0.8}]
    json.dumps(now, allow_nan=False)


def get(address, host=None):
    request = urllib.request.Request(address, headers={"Host": host} if host else {})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.headers, answer.read()


def test_the_page_answers_only_to_the_token_and_to_this_machine(fleet):
    played(fleet)
    server = serve_page(fleet)
    try:
        headers, html = get(fleet.page)
        assert b"Headwater fleet" in html
        assert b"http" not in html.replace(b"http://www.w3.org/2000/svg", b"")  # all is in it
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        state = json.loads(get(fleet.page.replace("/?", "/state.json?"))[1])
        assert state["round"] == 3
        wrong = [(fleet.page[:-1], None), (fleet.page.split("?")[0], None)]
        wrong += [(fleet.page, "evil.example"), (fleet.page.replace("/?", "/fleet.json?"), None)]
        for address, host in wrong:
            with pytest.raises(urllib.error.HTTPError):
                get(address, host)
    finally:
        server.shutdown()
        server.server_close()


def test_a_page_in_a_real_browser_shows_the_round(fleet, tmp_path_factory):
    import shutil

    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    played(fleet)
    server = serve_page(fleet)
    home = tmp_path_factory.mktemp("browser")
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
    flags += " --disable-background-networking --disable-component-update"
    command = [chromium, *flags.split(), f"--user-data-dir={home}", "--virtual-time-budget=4000"]
    try:
        done = subprocess.run(
            [*command, "--dump-dom", fleet.page],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    finally:
        server.shutdown()
        server.server_close()
    for text in ("3 / 7", "80.0 %", "75.0 %", "Changping", "no answer", "2 / 3", "<polyline"):
        assert text in done.stdout


def test_processes_are_found_and_ended_whatever_they_do(tmp_path):
    stubborn = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], "
        "start_new_session=True)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", stubborn]
    part = processes.launch(tmp_path, "stubborn", command, processes.environment(tmp_path))
    _wait(lambda: part.log.exists() and "ready" in part.log.read_text())
    assert len(processes.members(tmp_path)) == 2
    processes.kill(part.pid)  # its child, in a session of its own, is left
    _wait(lambda: len(processes.members(tmp_path)) == 1)
    again = processes.launch(tmp_path, "stubborn", command, processes.environment(tmp_path))
    _wait(lambda: len(processes.members(tmp_path)) == 2)
    assert again.pid in processes.members(tmp_path)
    assert processes.end(tmp_path, patience=0.5) == 2
    assert processes.members(tmp_path) == []


def test_a_free_port_is_free():
    assert not answers(free_port())
