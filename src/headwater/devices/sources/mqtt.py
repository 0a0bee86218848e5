"""Messages from an MQTT broker, at least once and as good as exactly once.

A message is acknowledged after it is on disk, and the broker keeps the session while the node is
away: nothing that the broker has accepted is lost. What was on disk when its acknowledgement got
lost comes again; the broker marks it as a duplicate and gives it the same packet number, so it is
recognised. The one case that doubles a message is a broker and a node that die in the same moment.
"""

from __future__ import annotations

import logging
import ssl
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

from paho.mqtt.client import Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from headwater.devices.logs import Sparingly
from headwater.devices.settings import Limits
from headwater.devices.source_settings import MqttSettings
from headwater.devices.sources.inbox import Inbox
from headwater.devices.sources.source import Delivery
from headwater.devices.state import State
from headwater.errors import InputError

log = logging.getLogger(__name__)

_MARK = "mqtt unacknowledged"
_QOS = 1
_TOPIC = 1024  # bytes that a packet may have besides its message


@dataclass(frozen=True)
class _Received:
    """A message and what is needed to acknowledge it and to know it again."""

    payload: bytes
    number: int
    digest: str


class MqttSource:
    """A subscription that outlives the process."""

    def __init__(self, settings: MqttSettings, client: str, limits: Limits) -> None:
        self._settings, self._limits = settings, limits
        # room for what may be in flight; more can only be QoS 0, which may be lost
        self._inbox: Inbox[_Received] = Inbox(settings.in_flight + limits.batch)
        self._known: deque[str] = deque(maxlen=2 * settings.in_flight)
        self._sparingly = Sparingly(log)
        self._client = self._make(settings.client_id or client)

    def deliveries(self, state: State, stop: threading.Event) -> Iterator[Delivery]:
        """Batches of messages; each is acknowledged when it is safe."""
        self._known.extend(str(state.get(_MARK) or "").split())
        unsent: list[str] = []  # digests of safe messages whose acknowledgement may not be out yet
        self._connect()
        try:
            for batch in self._inbox.batches(self._limits.batch, stop):
                if not self._client.want_write():
                    unsent = []
                unsent += [received.digest for received in batch]
                marks = {_MARK: " ".join(unsent)}
                safe = partial(self._acknowledge, batch)
                yield Delivery([received.payload for received in batch], marks, safe)
        finally:
            self._client.disconnect()
            self._client.loop_stop()

    def _make(self, client_id: str) -> Client:
        settings = self._settings
        client = Client(
            CallbackAPIVersion.VERSION2, client_id=client_id, protocol=MQTTv5, manual_ack=True
        )
        if settings.username is not None:
            client.username_pw_set(settings.username, _password(settings))
        if settings.tls:
            _secure(client, settings)
        client.reconnect_delay_set(1, max(1, int(settings.longest_wait)))
        client.on_connect = self._on_connect
        client.on_connect_fail = self._on_connect_fail
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        return client

    def _connect(self) -> None:
        """In paho's own thread, again and again with growing pauses."""
        settings = self._settings
        session = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        session.SessionExpiryInterval = settings.session_seconds
        session.ReceiveMaximum = settings.in_flight
        # a longer packet is not even sent to us
        session.MaximumPacketSize = self._limits.message_bytes + _TOPIC
        port = settings.port or (8883 if settings.tls else 1883)
        self._client.connect_async(
            settings.host, port, keepalive=30, clean_start=False, properties=session
        )
        self._client.loop_start()

    def _acknowledge(self, batch: list[_Received]) -> None:
        for received in batch:
            self._known.append(received.digest)
            self._client.ack(received.number, _QOS)

    def _on_message(self, client: Client, _: object, message: MQTTMessage) -> None:
        identity = b"%d %s %s" % (message.mid, message.topic.encode(), message.payload)
        digest = blake2b(identity, digest_size=8).hexdigest()
        if message.dup and digest in self._known:
            client.ack(message.mid, _QOS)
        elif not self._inbox.offer(_Received(bytes(message.payload), message.mid, digest)):
            self._sparingly.warning("message lost: it came too fast without QoS 1", 1)

    def _on_connect(
        self, client: Client, _: object, flags: object, reason: ReasonCode, __: object
    ) -> None:
        if reason.is_failure:
            self._sparingly.warning("the broker refuses us", 1, reason=str(reason))
            return
        extra = {"host": self._settings.host, "session": getattr(flags, "session_present", False)}
        log.info("connected to the broker", extra=extra)
        client.subscribe([(topic, _QOS) for topic in self._settings.topics])

    def _on_connect_fail(self, *_: object) -> None:
        where = f"{self._settings.host}:{self._client.port}"
        self._sparingly.warning("the broker cannot be reached", 1, broker=where)

    def _on_disconnect(
        self, _: Client, __: object, ___: object, reason: ReasonCode, ____: object
    ) -> None:
        if reason.is_failure:
            self._sparingly.warning("connection to the broker lost", 1, reason=str(reason))


def _password(settings: MqttSettings) -> str | None:
    if settings.password_file is None:
        return None
    try:
        return settings.password_file.read_text().strip()
    except OSError as error:
        raise InputError(
            f"source.password_file: {settings.password_file}: {error.strerror}"
        ) from error


def _secure(client: Client, settings: MqttSettings) -> None:
    files = (str(f) if f else None for f in (settings.ca, settings.certificate, settings.key))
    ca, certificate, key = files
    try:
        client.tls_set(ca, certificate, key)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise InputError(f"source.ca, certificate, key: {error}") from error
