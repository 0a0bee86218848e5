"""Samples from a real broker: none lost, none doubled, whoever dies."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import threading
import time

import intakes
import pytest
from brokers import MISSING, MOSQUITTO, Broker, write_certificates
from intakes import Taking, held
from node_process import running, write_toml
from nodes import node_settings
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

import headwater as hw
from headwater.devices.settings import node_file
from headwater.devices.sources import source_of

NOT_AUTHORISED = ReasonCode(PacketTypes.SUBACK, "Not authorized")

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason=MISSING)


def message(k):
    return json.dumps({"a": k, "b": 0, "c": 0, "label": k % 3})


@pytest.fixture
def broker(tmp_path):
    made = Broker(tmp_path / "broker")
    yield made
    made.stop(signal.SIGKILL)


def settings(folder, broker, **changes):
    source = {"kind": "mqtt", "topics": ["s/#"], "port": broker.port, "tls": False}
    return node_settings(folder / "n", source={**source, **changes.pop("source", {})}, **changes)


def subscribed(taking, broker):
    broker.wait_for("Sending SUBACK to a")
    return taking


def test_messages_become_samples(tmp_path, broker):
    with Taking(settings(tmp_path, broker)) as taking:
        subscribed(taking, broker)
        broker.publish([message(k) for k in range(300)])
        taking.until_arrived(300)
        assert held(taking.intake) == list(range(300))


def test_the_broker_keeps_what_comes_while_the_node_is_away(tmp_path, broker):
    with Taking(settings(tmp_path, broker)) as taking:
        subscribed(taking, broker)
    broker.publish([message(k) for k in range(50)])
    with Taking(settings(tmp_path, broker)) as taking:
        taking.until_arrived(50)
        assert held(taking.intake) == list(range(50))


def test_a_broker_that_goes_away_is_waited_for(tmp_path, broker):
    with Taking(settings(tmp_path, broker)) as taking:
        subscribed(taking, broker)
        broker.publish([message(k) for k in range(5)])
        taking.until_arrived(5)
        broker.stop()
        broker.start()
        broker.wait_for("Sending CONNACK to a")
        broker.publish([message(k) for k in range(5, 10)])
        taking.until_arrived(10)
        assert held(taking.intake) == list(range(10))


@pytest.mark.soak
def test_a_broker_that_is_away_for_minutes_is_waited_for(tmp_path, broker):
    """Pauses between attempts grow, but not beyond ``longest_wait``; nothing is lost or doubled."""
    with Taking(settings(tmp_path, broker, source={"longest_wait": 20.0})) as taking:
        subscribed(taking, broker)
        broker.publish([message(k) for k in range(5)])
        taking.until_arrived(5)
        broker.stop()
        time.sleep(180)
        assert taking.stream.is_alive()
        assert taking.stream.failure is None
        began = time.monotonic()
        broker.start()
        broker.wait_for("Sending CONNACK to a")
        assert time.monotonic() - began < 60
        broker.publish([message(k) for k in range(5, 10)])
        taking.until_arrived(10)
        assert held(taking.intake) == list(range(10))


@pytest.mark.soak
def test_a_broker_killed_twenty_times_takes_no_committed_sample_with_it(tmp_path, broker):
    """Killed at once after it has taken messages: what it had not handed on yet dies with it, but
    what the node has on disk stays, once, and the node comes back each time by itself."""
    chance, sent = random.Random(5), 0
    with Taking(settings(tmp_path, broker, source={"longest_wait": 2.0})) as taking:
        subscribed(taking, broker)
        for _ in range(20):
            broker.publish([message(k) for k in range(sent, sent + 50)])
            sent += 50
            time.sleep(chance.choice([0.0, 0.01, 0.05]))
            committed = held(taking.intake)
            broker.stop(signal.SIGKILL)
            broker.start()
            subscribed(taking, broker)
            broker.publish([message(sent)])
            sent += 1
            taking.until(lambda intake, last=sent - 1: last in held(intake))
            now = held(taking.intake)
            assert now == sorted(set(now))
            assert set(committed) <= set(now) <= set(range(sent))
        # All that came while the broker lived is there; most of what it took it handed on.
        assert len(now) > 20 + 0.2 * sent


def test_a_node_may_start_before_its_broker(tmp_path, broker):
    broker.stop()
    with Taking(settings(tmp_path, broker)) as taking:
        broker.start()
        subscribed(taking, broker)
        broker.publish([message(0)])
        taking.until_arrived(1)


def keeping_node(folder, broker):
    """The settings of a node that keeps all that the broker has, five messages at a time."""
    source = (
        f'[source]\nkind = "mqtt"\ntopics = ["s/#"]\nport = {broker.port}\ntls = false\n'
        "[limits]\nbatch = 5"
    )
    toml = write_toml(folder, source)
    toml.write_text(toml.read_text().replace('rule = "fifo"\ncapacity = 40', 'rule = "keep"'))
    return toml


def take_and_die(toml, batches):
    """A process that takes messages in, and is killed after so many batches."""
    with subprocess.Popen(
        [sys.executable, intakes.__file__, str(toml)], stdout=subprocess.PIPE, text=True
    ) as process:
        for _ in range(batches):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.stdout.read()


def test_kill_9_of_the_taking_process_neither_loses_nor_doubles(tmp_path, broker):
    """Killed at random moments while messages come, between commit and acknowledgement too."""
    toml = keeping_node(tmp_path, broker)
    chance, sent = random.Random(3), 0
    with Taking(node_file.read(toml)) as taking:
        subscribed(taking, broker)
    for _ in range(5):
        broker.publish([message(k) for k in range(sent, sent + 100)])
        sent += 100
        take_and_die(toml, chance.randint(2, 12))
    with Taking(node_file.read(toml)) as taking:
        broker.publish([message(sent)])
        taking.until(lambda intake: sent in held(intake))
        assert sorted(held(taking.intake)) == list(range(sent + 1))


def test_kill_9_of_a_process_whose_sender_says_everything_twice(tmp_path, broker):
    """To the broker these are different messages; their ids tell, over every death."""
    toml = keeping_node(tmp_path, broker)
    toml.write_text(toml.read_text().replace("[samples]", '[samples]\nid = "a"\nonce = 1000'))
    chance, sent = random.Random(6), 0
    with Taking(node_file.read(toml)) as taking:
        subscribed(taking, broker)
    for _ in range(4):
        again = max(0, sent - 20)  # what the sender is not sure of
        broker.publish([message(k) for k in [*range(again, sent + 50), *range(sent, sent + 50)]])
        sent += 50
        take_and_die(toml, chance.randint(2, 8))
    with Taking(node_file.read(toml)) as taking:
        broker.publish([message(sent)])
        taking.until(lambda intake: sent in held(intake))
        assert held(taking.intake) == list(range(sent + 1))
        assert taking.intake.memory.state.number("repeated") > 4 * 50


def test_a_message_committed_but_not_acknowledged_comes_once(tmp_path, broker):
    """The very moment: on disk, and the process is gone before the broker hears of it."""
    first = Taking(settings(tmp_path, broker))
    first.stream._source._client.ack = lambda *_: None  # dies before it can
    with first as taking:
        subscribed(taking, broker)
        broker.publish([message(0)] * 3)  # equal messages are different messages
        taking.until_arrived(3)
    with Taking(settings(tmp_path, broker)) as taking:
        broker.publish([message(1)])
        taking.until(lambda intake: 1 in held(intake))
        assert held(taking.intake) == [0, 0, 0, 1]


def test_messages_sent_again_while_they_wait_for_the_disk_come_once(tmp_path, broker):
    """The connection is lost when messages are received but not yet safe: the broker repeats."""
    go_on = threading.Event()
    taking = Taking(settings(tmp_path, broker))
    take = taking.stream._intake.take
    taking.stream._intake.take = lambda *batch: go_on.wait(60) and take(*batch)
    with taking:
        subscribed(taking, broker)
        broker.publish([message(k) for k in range(15)])
        broker.wait_for("Sending PUBLISH to a (d0, q1, r0, m15")
        broker.stop()
        broker.start()
        broker.wait_for("Sending PUBLISH to a (d1, q1, r0, m15")
        broker.publish([message(15)])
        go_on.set()
        taking.until(lambda intake: 15 in held(intake))
        assert held(taking.intake) == list(range(16))


def test_malformed_and_huge_messages_do_no_harm(tmp_path, broker):
    with Taking(settings(tmp_path, broker, limits={"message_bytes": 1000})) as taking:
        subscribed(taking, broker)
        broker.publish([b"{", b"\xff" * 900, b"x" * 2_000_000, message(0)])
        taking.until_arrived(1)
        assert taking.intake.memory.state.number("malformed") == 2  # the huge one is not even sent


def test_tls_and_password(tmp_path):
    write_certificates(tmp_path)
    (tmp_path / "password").write_text("secret\n")
    command = ["mosquitto_passwd", "-b", "-c", str(tmp_path / "users"), "device", "secret"]
    subprocess.run(command, check=True, capture_output=True)
    extra = (
        f"cafile {tmp_path}/ca.pem\ncertfile {tmp_path}/cert.pem\nkeyfile {tmp_path}/key.pem\n"
        f"allow_anonymous false\npassword_file {tmp_path}/users\n"
    )
    broker = Broker(tmp_path / "broker", extra)

    def prepare(client):
        client.tls_set(str(tmp_path / "ca.pem"))
        client.username_pw_set("device", "secret")

    secure = {"tls": True, "ca": tmp_path / "ca.pem", "username": "device"}
    try:
        right = {**secure, "password_file": tmp_path / "password"}
        with Taking(settings(tmp_path, broker, source=right)) as taking:
            subscribed(taking, broker)
            broker.publish([message(0)], prepare=prepare)
            taking.until_arrived(1)
        (tmp_path / "password").write_text("wrong")
        with Taking(settings(tmp_path, broker, source={**right, "client_id": "b"})):
            broker.wait_for("not authorised")
        unknown = {key: value for key, value in right.items() if key != "ca"}
        with Taking(settings(tmp_path, broker, source={**unknown, "client_id": "c"})):
            broker.wait_for("unknown ca")
    finally:
        broker.stop(signal.SIGKILL)


@pytest.mark.parametrize("topic", ["", "s/#/x", "s#", "s/a+/x", "a\0b", "x" * 65_536, "$share/g"])
def test_a_topic_that_no_broker_takes_is_named(tmp_path, topic):
    with pytest.raises(ValueError, match=r"topics: .*the last level.*; got '"):
        node_settings(tmp_path, source={"kind": "mqtt", "topics": ["s/ok", topic]})


@pytest.mark.parametrize("topic", ["#", "+", "s/+/x/#", "/", "$SYS/#", "$share/g/s/+"])
def test_a_topic_that_brokers_take_is_taken(tmp_path, topic):
    node_settings(tmp_path, source={"kind": "mqtt", "topics": [topic]})


def test_a_subscription_that_the_broker_refuses_ends_the_stream_with_words(tmp_path, broker):
    taking = Taking(settings(tmp_path, broker, source={"topics": ["s/#", "secret/#"]}))
    client = taking.stream._source._client
    told = client.on_subscribe
    refused = [ReasonCode(PacketTypes.SUBACK, "Granted QoS 1"), NOT_AUTHORISED]
    client.on_subscribe = lambda c, data, number, _, more: told(c, data, number, refused, more)
    with taking:
        taking.until_ended()
    assert isinstance(taking.stream.failure, hw.InputError)
    words = r"source\.topics: the broker refuses 'secret/#' \(Not authorized\); allow it"
    assert re.search(words, str(taking.stream.failure))


def test_a_password_file_that_is_not_there_is_named(tmp_path):
    source = {"kind": "mqtt", "topics": ["t"], "username": "u", "password_file": "/nowhere"}
    with pytest.raises(hw.InputError, match=r"source\.password_file: /nowhere: No such file"):
        source_of(node_settings(tmp_path, source=source))


def test_certificates_that_are_not_there_are_named(tmp_path):
    source = {"kind": "mqtt", "topics": ["t"], "ca": "/nowhere"}
    with pytest.raises(hw.InputError, match=r"source\.ca"):
        source_of(node_settings(tmp_path, source=source))


def test_a_node_learns_from_the_broker_and_stops_cleanly(tmp_path, broker):
    source = f'[source]\nkind = "mqtt"\ntopics = ["s/#"]\nport = {broker.port}\ntls = false'
    with running(write_toml(tmp_path, source)) as node:
        node.wait_for("connected to the broker")
        broker.wait_for("Sending SUBACK to a")
        broker.publish([message(k) for k in range(50)])
        about = node.until(lambda about: about["arrived"] == 50)
        assert about["held"] == 40
        assert node.end(signal.SIGTERM) == 0
