"""Messages from an MQTT broker: none lost, none doubled.

A message is acknowledged after it is on disk, and the broker keeps the session while the node is
away: nothing that the broker has accepted is lost. An acknowledgement may get lost, with the
connection or with one of the two processes; then the broker sends the message again, and it is
recognised (:mod:`headwater.devices.sources.recent`).
"""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from paho.mqtt.client import Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from headwater.devices.logs import Sparingly
from headwater.devices.memory.state import State
from headwater.devices.settings import Limits
from headwater.devices.settings.sources import MqttSettings
from headwater.devices.sources.inbox import Inbox
from headwater.devices.sources.recent import RecentMessages, digest_of
from headwater.devices.sources.source import Delivery
from headwater.errors import InputError

log = logging.getLogger(__name__)

_QOS = 1
_TOPIC = 1024  # bytes that a packet may have besides its message


@dataclass(frozen=True)
class _Received:
    """A message and what is needed to acknowledge it and to know it again."""

    payload: bytes
    number: int
    digest: int


class MqttSource:
    """A subscription that outlives the process."""

    def __init__(self, settings: MqttSettings, client: str, limits: Limits) -> None:
        self._settings, self._limits = settings, limits
        # room for what may be in flight; more can only be QoS 0, which may be lost
        self._inbox: Inbox[_Received] = Inbox(settings.in_flight + limits.batch)
        self._recent = RecentMessages(settings.in_flight)
        self._stop = threading.Event()
        self._sparingly = Sparingly(log)
        self._client = self._make(settings.client_id or client)

    def deliveries(self, state: State, stop: threading.Event) -> Iterator[Delivery]:
        """Batches of messages; each is acknowledged when it is safe."""
        self._stop = stop
        self._recent.load(state.database)
        self._connect()
        try:
            for batch in self._inbox.batches(self._limits.batch, stop):
                digests = [received.digest for received in batch]
                remember = partial(self._recent.write, state.database, digests)
                safe = partial(self._acknowledge, batch)
                yield Delivery([received.payload for received in batch], remember, safe)
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
        client.on_subscribe = self._on_subscribe
        return client

    def _connect(self) -> None:
        """In paho's own thread, again and again with growing pauses."""
        settings = self._settings
        session = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # as paho has it
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
        self._recent.settle([received.digest for received in batch])
        for received in batch:
            self._client.ack(received.number, _QOS)

    def _on_message(self, client: Client, _: object, message: MQTTMessage) -> None:
        payload = bytes(message.payload)
        digest = digest_of(message.mid, message.topic, payload)
        if not self._recent.is_new(digest, message.dup):
            # one that is still on its way to the disk is acknowledged when it gets there
            if self._recent.is_safe(digest):
                client.ack(message.mid, _QOS)
        elif not self._put(_Received(payload, message.mid, digest), message.qos):
            self._recent.forget(digest)

    def _put(self, received: _Received, qos: int) -> bool:
        """Hand a message over; one that the broker will not repeat may be lost."""
        if qos > 0:
            return self._inbox.put(received, self._stop)
        there_is_room = self._inbox.offer(received)
        if not there_is_room:
            self._sparingly.warning("messages lost: without QoS 1 they came too fast", 1)
        return there_is_room

    def _on_connect(
        self, client: Client, _: object, flags: object, reason: ReasonCode, __: object
    ) -> None:
        if reason.is_failure:
            self._sparingly.warning("the broker refuses us", 1, reason=str(reason))
            return
        extra = {"host": self._settings.host, "session": getattr(flags, "session_present", False)}
        log.info("connected to the broker", extra=extra)
        client.subscribe([(topic, _QOS) for topic in self._settings.topics])

    def _on_subscribe(
        self, _: Client, __: object, ___: int, reasons: list[ReasonCode], ____: object
    ) -> None:
        """A topic that is refused would never bring a message: that is an error, not a wait."""
        for topic, reason in zip(self._settings.topics, reasons, strict=False):
            if reason.is_failure:
                error = InputError(
                    f"source.topics: the broker refuses {topic!r} ({reason}); allow it to this "
                    "user at the broker, or take it out"
                )
                self._inbox.end(error, self._stop)
                return

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
            f"source.password_file: {settings.password_file}: {error.strerror}; put the password "
            "of the broker's user into that file, or leave username and password_file out"
        ) from error


def _secure(client: Client, settings: MqttSettings) -> None:
    files = (str(f) if f else None for f in (settings.ca, settings.certificate, settings.key))
    ca, certificate, key = files
    try:
        client.tls_set(ca, certificate, key)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise InputError(f"source.ca, certificate, key: {error}") from error
