"""NODE.toml: every setting of a node with its meaning, its default and its limits."""

from headwater.devices.settings.node import (
    Limits,
    LogSettings,
    MemorySettings,
    MetricsSettings,
    ModelSettings,
    NodeSettings,
    TestSettings,
)

__all__ = [
    "Limits",
    "LogSettings",
    "MemorySettings",
    "MetricsSettings",
    "ModelSettings",
    "NodeSettings",
    "TestSettings",
]
