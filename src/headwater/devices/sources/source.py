"""What a source is: it delivers messages, and learns when they are safe."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.devices.intake.mapping import Message
from headwater.devices.memory.state import State
from headwater.devices.settings import NodeSettings
from headwater.devices.settings.sources import (
    CsvSettings,
    LinesSettings,
    MqttSettings,
    PythonSettings,
)
from headwater.errors import InputError


def _nothing() -> None:
    """Most senders do not want to know."""


@dataclass(frozen=True)
class Delivery:
    """Messages that are taken in together.

    Attributes:
        messages: at most the batch of ``[limits]``.
        remember: called in their transaction; writes down how far the source has been read.
        safe: called when they are on disk.
    """

    messages: Sequence[Message]
    remember: Callable[[], None] = _nothing
    safe: Callable[[], None] = _nothing


class Source(Protocol):
    """Delivers messages until it ends or is stopped."""

    def deliveries(self, state: State, stop: threading.Event) -> Iterator[Delivery]:
        """Messages from where ``state`` says that reading had come to."""
        ...


def source_of(settings: NodeSettings) -> Source | None:
    """The source that ``[source]`` describes; None: none, or a replay by rounds."""
    # each in its own module, so that a node without MQTT needs no MQTT library
    source, batch = settings.source, settings.limits.batch
    if isinstance(source, CsvSettings) and source.arrivals is None:
        from headwater.devices.sources.csv_replay import CsvReplay
        from headwater.devices.sources.recording import check_header

        check_header(source.path, settings.samples)
        return CsvReplay(source, settings.samples.time, batch)
    if isinstance(source, LinesSettings):
        from headwater.devices.sources.lines import JsonLines

        return JsonLines(source, settings.limits.message_bytes, batch)
    if isinstance(source, PythonSettings):
        from headwater.devices.sources.function import FunctionSource

        return FunctionSource(source, batch)
    if isinstance(source, MqttSettings):
        try:
            from headwater.devices.sources.mqtt import MqttSource
        except ImportError as error:
            raise InputError(
                f"source.kind: mqtt needs its library: pip install 'headwater[mqtt]' ({error})"
            ) from error
        return MqttSource(source, settings.client, settings.limits)
    return None
