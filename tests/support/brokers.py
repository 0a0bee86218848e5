"""A real MQTT broker, Debian's mosquitto, on a port of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
MISSING = "mosquitto is not installed (apt install mosquitto)"


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Broker:
    """mosquitto with its own folder; what it holds survives ``stop`` and ``start``."""

    def __init__(self, folder, extra=""):
        self.port = free_port()
        self._folder = folder
        folder.mkdir()
        # it gives up root's rights, and must still be able to write
        user = "root" if os.getuid() == 0 else ""
        (folder / "mosquitto.conf").write_text(
            f"listener {self.port} 127.0.0.1\npersistence true\npersistence_location {folder}/\n"
            f"{f'user {user}' if user else ''}\nmax_queued_messages 0\n"
            + (extra or "allow_anonymous true\n")
        )
        self.start()

    def start(self):
        command = [MOSQUITTO, "-c", str(self._folder / "mosquitto.conf"), "-v"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.log = []
        for line in self.process.stderr:
            self.log.append(line)
            if "running" in line:
                break
        else:
            raise AssertionError("".join(self.log))
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self._news:
                self.log.append(line)
                self._news.notify_all()

    def wait_for(self, words):
        """Until the broker's log has these words."""
        with self._news:
            assert self._news.wait_for(lambda: any(words in line for line in self.log), 120)

    def stop(self, number=signal.SIGTERM):
        for _ in range(60):  # mosquitto forgets a signal that comes before its loop has begun
            self.process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(1)
                break
        self._reader.join(60)
        self.process.stderr.close()

    def publish(self, payloads, topic="s/1", prepare=lambda client: None):
        """Send messages with QoS 1 and wait until the broker has them all."""
        client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
        prepare(client)
        client.max_inflight_messages_set(1000)
        connected = threading.Event()
        client.on_connect = lambda *_: connected.set()
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        assert connected.wait(60)
        for sent in [client.publish(topic, payload, qos=1) for payload in payloads]:
            sent.wait_for_publish(120)
        client.disconnect()
        client.loop_stop()


def write_certificates(folder):
    """A certificate authority and a certificate for 127.0.0.1: ca.pem, cert.pem, key.pem."""
    authority, server = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
    root = _certificate(name, name, authority, authority, x509.BasicConstraints(True, None))
    host = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    (folder / "ca.pem").write_bytes(root.public_bytes(serialization.Encoding.PEM))
    own = _certificate(host, name, server, authority, names)
    (folder / "cert.pem").write_bytes(own.public_bytes(serialization.Encoding.PEM))
    key = server.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (folder / "key.pem").write_bytes(key)


def _certificate(subject, issuer, key, signer, extension):
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        .sign(signer, hashes.SHA256())
    )
