"""Where messages come from: MQTT, lines of JSON, a CSV file, a function."""

from headwater.devices.sources.source import Delivery, Source, source_of

__all__ = ["Delivery", "Source", "source_of"]
